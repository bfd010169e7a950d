package rebuild

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Difference is a row that differs from the result of folding its facts.
type Difference struct {
	Table string `json:"table"`
	Mode  string `json:"mode"`
	// Row is the key of the row without the mode. Account is the account of the stored row if it names one, otherwise
	// of the computed row.
	Row     string `json:"row"`
	Account string `json:"account"`
	// Columns names the columns that differ, and fields of the state as "state.Name". It is [""] if one side has no
	// row.
	Columns []string `json:"columns"`
	// Stored and Computed hold the values of both sides by column: the columns that differ, or the whole row if the
	// other side has no row. A side without a row is nil.
	Stored   map[string]any `json:"stored"`
	Computed map[string]any `json:"computed"`

	// letters are the emails that the difference requires if the account loses its access with it.
	letters []fold.Why
}

// empty reports whether the row of an account exists on one side only and contains nothing.
func (d Difference) empty() bool {
	has := func(side map[string]any) bool {
		return side != nil && (side["target_state"] != nil || side["held"] == true)
	}
	return d.Table == "accounts" && (d.Stored == nil || d.Computed == nil) && !has(d.Stored) && !has(d.Computed)
}

// narrow removes equal columns from both sides and returns the names of the others.
func (d *Difference) narrow() (columns []string) {
	if d.Stored == nil || d.Computed == nil {
		return []string{""}
	}
	d.Stored, d.Computed = flat(d.Stored), flat(d.Computed)
	names := maps.Clone(d.Stored)
	maps.Copy(names, d.Computed)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if fmt.Sprint(d.Stored[name]) != fmt.Sprint(d.Computed[name]) {
			columns = append(columns, name)
			continue
		}
		delete(d.Stored, name)
		delete(d.Computed, name)
	}
	return columns
}

// flat replaces a nested object by its fields, named "column.Field".
func flat(row map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range row {
		if state, ok := value.(map[string]any); ok {
			for field, v := range state {
				out[name+"."+field] = v
			}
			continue
		}
		out[name] = value
	}
	return out
}

// String names the row and the columns that differ, in one line without values.
func (d Difference) String() string {
	row := d.Table + " " + d.Row + " (" + d.Mode + ")"
	switch {
	case d.Stored == nil:
		return row + ": is missing"
	case d.Computed == nil:
		return row + ": has no facts"
	}
	return row + ": " + strings.Join(d.Columns, ", ")
}
