package parameter

import (
	"errors"

	"github.com/spf13/pflag"
)

// Flags makes the flags return an error for an empty value, a second value, and text that is not UTF-8. A list flag may
// be given several times.
func Flags(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); list {
			return
		}
		if _, made := f.Value.(*once); !made {
			f.Value = &once{Value: f.Value}
		}
	})
}

// once is the value of a flag that can be set once.
type once struct {
	pflag.Value
	set bool
}

// Set sets the flag.
func (o *once) Set(text string) error {
	switch err := Text("value", text); {
	case o.set:
		return errors.New("it is given twice: give it once")
	case text == "":
		return errors.New("it is empty: leave it out, or give a value")
	case err != nil:
		return errors.New("write UTF-8 without NUL")
	}
	o.set = true
	return o.Value.Set(text)
}
