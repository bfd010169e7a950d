package rebuild

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Difference is a stored row that differs from the recomputed row.
type Difference struct {
	Table string `json:"table"`
	Mode  string `json:"mode"`
	// Row is the primary key of the row without the mode. Account is the account in the stored row, or else in the
	// computed row.
	Row     string `json:"row"`
	Account string `json:"account"`
	// Columns names the columns that differ. A field of the state is named "state.Name". If the stored or the computed
	// row does not exist, Columns is [""].
	Columns []string `json:"columns"`
	// Stored and Computed contain the values of the columns that differ, for people. If one of the two rows does not
	// exist, its map is nil, and the other map contains the whole row.
	Stored   map[string]any `json:"stored"`
	Computed map[string]any `json:"computed"`

	before, after side
}

// side is the decoded content of a stored or a computed row. It is zero if there is no row.
type side struct {
	exists  bool
	account string
	// target and held are set for the row of an account. The target is empty unless it is active.
	target fold.Target
	held   bool
	// object is set for the row of an object, for example a subscription. It is nil for other tables.
	object fold.Object
}

// difference compares a stored row with a computed row. Either is nil if the row does not exist.
func (p projection) difference(mode, key string, stored, computed []byte) (d Difference, err error) {
	d = Difference{Table: p.name, Mode: mode, Row: key}
	errs := make([]error, 4)
	d.before, errs[0] = p.side(stored)
	d.after, errs[1] = p.side(computed)
	d.Stored, errs[2] = valuesOf(stored)
	d.Computed, errs[3] = valuesOf(computed)
	d.Account = cmp.Or(d.before.account, d.after.account)
	d.Columns = d.narrow()
	return d, errors.Join(errs...)
}

// side decodes a row.
func (p projection) side(data []byte) (s side, err error) {
	if data == nil {
		return s, nil
	}
	var row struct {
		ID, Account string
		Kind        fold.Kind
		State       json.RawMessage
		Held        bool
		TargetState string   `json:"target_state"`
		Plan        string   `json:"target_plan"`
		Quantity    int64    `json:"target_quantity"`
		Features    []string `json:"target_features"`
	}
	if err := json.Unmarshal(data, &row); err != nil {
		return s, err
	}
	s.exists, s.account = true, row.Account
	if p.name == "accounts" {
		s.account, s.held = row.ID, row.Held
		s.target = fold.Target{State: row.TargetState, Plan: row.Plan, Quantity: row.Quantity, Features: row.Features}
		return s, nil
	}
	if kind := cmp.Or(p.kind, row.Kind); kind != "" {
		list := fold.Objects{}
		err = list.Add(kind, row.State)
		for _, o := range list {
			s.object = o
		}
	}
	return s, err
}

// valuesOf decodes the values of a row by column.
func valuesOf(data []byte) (row map[string]any, err error) {
	if data == nil {
		return nil, nil
	}
	values := json.NewDecoder(bytes.NewReader(data))
	values.UseNumber() // a float64 cannot hold every amount
	err = values.Decode(&row)
	return row, err
}

// empty reports whether the difference is a row of an account without content that exists only as stored or only as
// computed.
func (d Difference) empty() bool {
	has := func(s side) bool { return s.target.State != "" || s.held }
	return d.Table == "accounts" && d.before.exists != d.after.exists && !has(d.before) && !has(d.after)
}

// object returns the ID of the row's object, or "".
func (d Difference) object() string {
	for _, s := range []side{d.before, d.after} {
		if s.object != nil {
			return s.object.Reference().ID
		}
	}
	return ""
}

// accounts returns the accounts that own the row before or after the recomputation.
func (d Difference) accounts() []string {
	return fact.Unique(slices.DeleteFunc([]string{d.before.account, d.after.account},
		func(account string) bool { return account == "" }))
}

// narrow removes equal columns from both rows and returns the names of the other columns.
func (d *Difference) narrow() (columns []string) {
	if d.Stored == nil || d.Computed == nil {
		return []string{""}
	}
	d.Stored, d.Computed = flat(d.Stored), flat(d.Computed)
	names := maps.Clone(d.Stored)
	maps.Copy(names, d.Computed)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !reflect.DeepEqual(d.Stored[name], d.Computed[name]) {
			columns = append(columns, name)
			continue
		}
		delete(d.Stored, name)
		delete(d.Computed, name)
	}
	return columns
}

// flat replaces each nested object by its fields, which it names "column.Field".
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

// String returns the row and the names of its differing columns in one line, without values.
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
