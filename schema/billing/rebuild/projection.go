package rebuild

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// projection is a table with the results of folds.
type projection struct {
	name string
	key  string // without the mode
	// except lists the columns that depend on more than the facts: versions, times of writing and the like.
	except []string
	// where is a condition on the compared rows, or empty.
	where string
	// data selects the compared part of row t. Empty means the whole row.
	data string
	// clock is the condition of the rows t that a run of the clock may already have deleted.
	clock string
	// follows is set if the clock changes the rows of an account. They are not compared while a run of the clock is
	// due.
	follows bool
}

var projections = []projection{
	{
		name: "accounts", key: "id", except: []string{"customer", "target_version", "known_features", "over_at",
			"folded_at", "reconciled_at"},
		// The earlier access of a suspended account depends on the order of the deliveries.
		data:    `case when t.target_state = 'active' then to_jsonb(t) else jsonb_build_object('id', t.id, 'held', t.held) end`,
		follows: true,
	},
	{name: "subscriptions", key: "id", data: `to_jsonb(t) #- '{state,Version}'`},
	// The parts in which a payment was reported, and the published events, depend on the order of the deliveries.
	{name: "invoices", key: "id", except: []string{"page"},
		data: `to_jsonb(t) #- '{state,PaidSums}' #- '{state,PaidTimes}' #- '{state,PaidBy}' #- '{state,Untold}' #- '{state,Misread}'`},
	// The order of the deliveries decides which refund of a purchase has the last minor unit of its tax.
	{name: "objects", key: "kind || ' ' || id", data: `case when t.kind = 'refund'
		then to_jsonb(t) #- '{state,Announced}' #- '{state,Tax}' #- '{state,Taxed}'
		else to_jsonb(t) #- '{state,Announced}' #- '{state,Captures}' end`},
	{name: "grants", key: "object"},
	// The times of settle and book rows begin when they are written. The other kinds depend on earlier states: whether
	// a workspace existed, was held or was repaired.
	{name: "due", key: "object || ' ' || why || ' ' || at", except: []string{"next_at"},
		where: "why not in ('settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold', 'changed', 'ended', 'taken')", clock: "t.at <= $4"},
}

// alwaysExcept lists the columns that are not compared in any table.
var alwaysExcept = []string{"updated_at", "created_at"}

// account is the column with the account of a row.
func (p projection) account() string {
	if p.name == "accounts" {
		return "id"
	}
	return "account"
}

// letters returns the emails that the change of an object from stored to computed requires if access is lost with it.
func (p projection) letters(stored, computed []byte) ([]fold.Why, error) {
	kinds := map[string]fold.Kind{"subscriptions": fold.KindSubscription, "invoices": fold.KindInvoice, "objects": ""}
	kind, known := kinds[p.name]
	if !known || stored == nil || computed == nil {
		return nil, nil
	}
	var sides [2]fold.Object
	for i, data := range [][]byte{stored, computed} {
		var row struct {
			Kind  fold.Kind
			State json.RawMessage
		}
		if err := json.Unmarshal(data, &row); err != nil {
			return nil, err
		}
		list := fold.Objects{}
		if err := list.Add(cmp.Or(kind, row.Kind), row.State); err != nil {
			return nil, err
		}
		sides[i] = list.List()[0]
	}
	return fold.LettersOf(sides[0], sides[1], true), nil
}

// Row is a row that facts determine, without the columns that depend on more than the facts: versions, times of
// writing, published events. The same facts, in any order, give the same rows.
type Row struct {
	Table string          `json:"table"`
	Key   string          `json:"key"`
	Data  json.RawMessage `json:"data"`
}

// Rows returns the rows of an account that facts determine. It returns none for an unknown account.
func Rows(ctx context.Context, db schema.Querier, of billing.Scope) (rows []Row, err error) {
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

func (p projection) rowsSQL() string {
	where := "t.mode = $2 and t." + p.account() + " = $3"
	if p.where != "" {
		where += " and " + p.where
	}
	return `select ` + p.key + `, (` + cmp.Or(p.data, "to_jsonb(t)") + `) - $1::text[] from ` + p.name + ` t where ` +
		where
}

// Compare returns the differences between the rows of two accounts with equal facts: got as the stored side, want as
// the computed side. They have no mode and no account.
func Compare(got, want []Row) (differences []Difference, err error) {
	stored, err := byKey(got)
	if err != nil {
		return nil, err
	}
	computed, err := byKey(want)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(stored)
	maps.Copy(all, computed)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		table, key, _ := strings.Cut(at, "\x00")
		d := Difference{Table: table, Row: key, Stored: stored[at], Computed: computed[at]}
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
