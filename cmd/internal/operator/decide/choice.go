package decide

import "strings"

// Choice is a command that a person can run about an event.
type Choice struct {
	// Command is the command line as a list of words.
	Command []string `json:"command"`
	// Effect describes the effect of the command.
	Effect string `json:"effect"`
	// Decision is the decision that the command makes, without person and reason. It is nil for a command that only
	// reads.
	Decision *Decision `json:"-"`
}

// Line returns the command line, quoted for a shell.
func (c Choice) Line() string {
	words := make([]string, len(c.Command))
	for i, word := range c.Command {
		words[i] = ShellWord(word)
	}
	return strings.Join(words, " ")
}

// ShellWord returns the word, quoted if a shell would interpret one of its characters.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@+,") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Choose returns the choice of a verb for a target. If effect is not empty, the choice concerns only that effect.
func Choose(v *Verb, target, effect, does string) Choice {
	d := &Decision{Verb: v.Name, Target: target, Args: Args{Effect: effect}}
	command := append(append([]string{"pawl"}, strings.Fields(v.Command)...), target)
	for _, f := range v.Flags {
		if value := *f.Value(&d.Args); value != "" {
			command = append(command, "--"+f.Name, value)
		} else if f.Required { // a placeholder for a value that the operator must add
			command = append(command, "--"+f.Name, strings.ToUpper(f.Name))
		}
	}
	return Choice{append(command, "--reason", "REASON"), does, d}
}

// Choose is [Choose] for the verb with the name.
func (o *Operator) Choose(verb, target, effect, does string) Choice {
	return Choose(o.Verbs.Named(verb), target, effect, does)
}
