package config

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	// Key is the path of the setting: sources.stripe.secrets[0].value.
	Key string `json:"key"`
	// Line is the setting's line in the file, 0 if the file does not set it.
	Line int `json:"line,omitempty"`
	// Problem describes the fault, Fix says what to write instead. Neither holds a secret.
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
}

func (f Fault) String() string {
	where := f.Key
	switch {
	case f.Key != "" && f.Line > 0:
		where = fmt.Sprintf("%s (line %d)", f.Key, f.Line)
	case f.Line > 0:
		where = fmt.Sprintf("line %d", f.Line)
	}
	text := f.Problem
	if where != "" {
		text = where + ": " + text
	}
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return text
}

// Faults is everything that is wrong, in the order of the file.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// sort puts faults in the order of the file; those without a line come last.
func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line - a.Line
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Key, b.Key)
	})
}
