package operator

import (
	"slices"
	"strings"
)

// DecisionOf returns the decision that a choice's command makes, without who and why. It is false for a command that
// decides nothing.
func DecisionOf(c Choice) (d Decision, ok bool) {
	if len(c.Command) < 3 || c.Command[0] != "pawl" {
		return d, false
	}
	words := c.Command[1:]
	i := slices.IndexFunc(verbs, func(v Verb) bool {
		return v.Command != "" && strings.HasPrefix(strings.Join(words, " ")+" ", v.Command+" ")
	})
	if i < 0 {
		return d, false
	}
	v := &verbs[i]
	d.Verb = v.Name
	rest := words[strings.Count(v.Command, " ")+1:]
	for len(rest) > 0 {
		name, is := strings.CutPrefix(rest[0], "--")
		if !is {
			d.Target, rest = rest[0], rest[1:]
			continue
		}
		value := ""
		if len(rest) > 1 {
			value = rest[1]
		}
		for _, f := range v.Flags {
			if f.Name == name && value != referenceWanted {
				*f.Value(&d.Args) = value
			}
		}
		rest = rest[min(2, len(rest)):]
	}
	return d, d.Target != ""
}
