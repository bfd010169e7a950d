package config

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one problem of the configuration.
type Fault struct {
	// Key is the path of the setting: sources.stripe.secrets[0].value.
	Key string `json:"key"`
	// Line is the line of the setting, or 0 if the file does not set it.
	Line int `json:"line,omitempty"`
	// Column is the position in the line, from 1, for a fault in an expression, and 0 for any other fault.
	Column int `json:"column,omitempty"`
	// Problem describes the fault, and Fix the correction. Neither contains a secret.
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
	// FileMode is set on the warning that others can read a secret's file.
	FileMode bool `json:"-"`
}

func (f Fault) String() string {
	where := f.Key
	switch {
	case f.Column > 0:
		where = fmt.Sprintf("%s (line %d, column %d)", f.Key, f.Line, f.Column)
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

// Faults contains all problems, in the order of the file.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// sort orders faults by line. Faults without a line come last.
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
