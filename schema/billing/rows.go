package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema"

	"github.com/jackc/pgx/v5"
)

// Row is a row that facts fold to, without the columns that do not follow from facts alone: versions, times of
// writing, announcements. After the same facts, in every order, an account has the same rows.
type Row struct {
	Table string          `json:"table"`
	Key   string          `json:"key"`
	Data  json.RawMessage `json:"data"`
}

// Rows returns the rows of an account that facts fold to.
func Rows(ctx context.Context, db schema.Querier, of Scope) (rows []Row, err error) {
	for _, p := range projections {
		list, err := schema.Rows(ctx, db, "read "+p.name+" of account "+of.Account, func(row pgx.CollectableRow) (Row,
			error) {
			r := Row{Table: p.name}
			err := row.Scan(&r.Key, &r.Data)
			return r, err
		}, p.rowsSQL(), slices.Concat(alwaysExcept, p.except), of.Mode, of.Account)
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}

// alwaysExcept are the columns that no table is compared by.
var alwaysExcept = []string{"updated_at", "created_at"}

func (p projection) rowsSQL() string {
	where := "t.mode = $2 and t." + p.account() + " = $3"
	if p.where != "" {
		where += " and " + p.where
	}
	return `select ` + p.key + `, (` + cmp.Or(p.data, "to_jsonb(t)") + `) - $1::text[] from ` + p.name + ` t where ` +
		where
}

// Differing says how rows that should be the same are not. Is holds the values of got, Folded those of want.
func Differing(got, want []Row) (differences []Difference, err error) {
	is, err := byKey(got)
	if err != nil {
		return nil, err
	}
	folded, err := byKey(want)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(is)
	maps.Copy(all, folded)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		table, key, _ := strings.Cut(at, "\x00")
		d := Difference{Table: table, Row: key, Is: is[at], Folded: folded[at]}
		if d.empty() {
			continue
		}
		if d.Columns = d.narrow(); len(d.Columns) > 0 {
			differences = append(differences, d)
		}
	}
	return differences, nil
}

func byKey(rows []Row) (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	for _, r := range rows {
		var fields map[string]any
		if err := json.Unmarshal(r.Data, &fields); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", r.Table, r.Key, err)
		}
		out[r.Table+"\x00"+r.Key] = fields
	}
	return out, nil
}
