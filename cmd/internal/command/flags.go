package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
)

// Checked is the value of a flag that is validated when it is parsed, so that a wrong value is a usage error.
type Checked struct {
	// Kind is the type of the value in the help text.
	Kind string
	text string
	// Parse validates and stores the value.
	Parse func(text string) error
}

// String returns the text of the flag, or its default.
func (c *Checked) String() string { return c.text }

// Type returns the type of the value in the help text.
func (c *Checked) Type() string { return c.Kind }

// Set parses the value of the flag.
func (c *Checked) Set(text string) error {
	if err := c.Parse(text); err != nil {
		return err
	}
	c.text = text
	return nil
}

// LimitFlag adds --limit, a number of at least 1.
func LimitFlag(cmd *cobra.Command, most int) *int {
	n := most
	cmd.Flags().Var(&Checked{"int", strconv.Itoa(most), func(text string) (err error) {
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return errors.New("write a number from 1")
		}
		return nil
	}}, "limit", "the highest number of rows")
	return &n
}

// OneOfFlag adds a flag that accepts one of the words.
func OneOfFlag(cmd *cobra.Command, value *string, name, usage string, words ...string) {
	cmd.Flags().Var(&Checked{Kind: "string", Parse: func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("use %s", output.OneOf(words))
		}
		*value = text
		return nil
	}}, name, usage)
}

// ModeFlag adds --mode, live or test.
func ModeFlag(cmd *cobra.Command, mode *string, usage string) {
	OneOfFlag(cmd, mode, "mode", usage, "live", "test")
}

// SinceUsage ends the usage of a flag of [TimeFlag] in the past.
const SinceUsage = "this `time`: " + resource.TimeUsage

// TimeFlag adds a flag that accepts a time or a duration before now.
func TimeFlag(flags *pflag.FlagSet, at *time.Time, name, usage string) {
	flags.Var(&Checked{Kind: "time", Parse: func(text string) (err error) {
		*at, err = resource.Moment(text, time.Now())
		return err
	}}, name, usage)
}
