package rebuild

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// projection describes a table with rows that are computed from facts.
type projection struct {
	name string
	key  string // the primary key without the mode
	// kind is the kind of object in the rows. It is empty if each row has its own kind, or if the rows contain no
	// object.
	kind fold.Kind
	// except lists columns that facts alone do not determine, for example versions and update times.
	except []string
	// where is a condition on the compared rows, or empty.
	where string
	// data is an SQL expression for the compared part of row t. If it is empty, the whole row is compared.
	data string
	// clock is an SQL condition for rows t that a scheduled run may already have deleted.
	clock string
	// follows is set if scheduled runs change the rows of an account. These rows are not compared while an action is
	// due.
	follows bool
}

var projections = []projection{
	{
		name: "accounts", key: "id", except: []string{"customer", "target_version", "known_features", "over_at",
			"folded_at", "reconciled_at"},
		// The plan of a suspended account depends on the order of the deliveries, so it is not compared.
		data:    `case when t.target_state = 'active' then to_jsonb(t) else jsonb_build_object('id', t.id, 'held', t.held) end`,
		follows: true,
	},
	{name: "subscriptions", key: "id", kind: fold.KindSubscription, data: `to_jsonb(t) #- '{state,Version}'`},
	// How payments were split into parts, and which events were published, depends on the order of the deliveries.
	{name: "invoices", key: "id", kind: fold.KindInvoice, except: []string{"page"},
		data: `to_jsonb(t) #- '{state,PaidSums}' #- '{state,PaidTimes}' #- '{state,PaidBy}' #- '{state,Unexplained}' #- '{state,Misread}'`},
	// The last minor unit of the tax belongs to one of several refunds. The order of the deliveries determines this
	// refund.
	{name: "objects", key: "kind || ' ' || id", data: `case when t.kind = 'refund'
		then to_jsonb(t) #- '{state,Announced}' #- '{state,Tax}' #- '{state,Taxed}'
		else to_jsonb(t) #- '{state,Announced}' #- '{state,Captures}' end`},
	{name: "grants", key: "object"},
	// The times of settle and book actions depend on when the action was scheduled. The other kinds depend on earlier
	// states: whether a workspace existed, was on hold or was repaired.
	{name: "due", key: "object || ' ' || why || ' ' || at", except: []string{"next_at"},
		where: "why not in ('settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold', 'changed')", clock: "t.at <= $4"},
}

// alwaysExcept lists the columns that are ignored in every table.
var alwaysExcept = []string{"updated_at", "created_at"}

// account is the column that contains the account of a row.
func (p projection) account() string {
	if p.name == "accounts" {
		return "id"
	}
	return "account"
}

// Row is the part of a row that facts alone determine. It contains no versions, update times or published events. Equal
// facts give equal rows, in any order of the facts.
type Row struct {
	Table string          `json:"table"`
	Key   string          `json:"key"`
	Data  json.RawMessage `json:"data"`
}

// Rows returns the rows of an account as far as facts determine them. It returns no rows for an unknown account.
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

// Compare returns the differences between the rows of two accounts that have equal facts. got is treated as stored,
// want as computed. The differences have no mode.
func Compare(got, want []Row) (differences []Difference, err error) {
	sides := map[[2]string]*[2][]byte{}
	for i, rows := range [][]Row{got, want} {
		for _, r := range rows {
			at := [2]string{r.Table, r.Key}
			if sides[at] == nil {
				sides[at] = &[2][]byte{}
			}
			sides[at][i] = r.Data
		}
	}
	order := func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }
	for _, at := range slices.SortedFunc(maps.Keys(sides), order) {
		of := slices.IndexFunc(projections, func(p projection) bool { return p.name == at[0] })
		d, err := projections[of].difference("", at[1], sides[at][0], sides[at][1])
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", at[0], at[1], err)
		}
		if !d.empty() && len(d.Columns) > 0 {
			differences = append(differences, d)
		}
	}
	return differences, nil
}
