package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Difference is a row that is not what the facts fold to.
type Difference struct {
	Table string `json:"table"`
	Mode  string `json:"mode"`
	// Row is the row's key beside the mode, and Account whose it is, as far as either side says.
	Row     string `json:"row"`
	Account string `json:"account"`
	// Columns names what differs, "" alone where the whole row is missing on one side.
	Columns []string `json:"columns"`
	// Is holds what stands there, Folded what the facts come to: by column, nil for a row that is not there.
	Is     map[string]any `json:"is"`
	Folded map[string]any `json:"folded"`

	// letters are those that the difference calls for, were access lost with it.
	letters []fold.Why
}

// projection is a table that facts fold to.
type projection struct {
	name string
	key  string // beside the mode
	// except lists the columns that do not follow from the facts alone: versions, times of writing and the like.
	except []string
	// where leaves rows out that say nothing.
	where string
	// data selects the part of a row t that is compared, "" for all of it.
	data string
	// clock is the condition of the rows t that the clock may already have taken.
	clock string
	// follows is set where the rows of an account follow the clock: they are left to it while its time has come.
	follows bool
}

var projections = []projection{
	{
		name: "accounts", key: "id", except: []string{"customer", "target_version", "known_features", "over_at",
			"folded_at", "reconciled_at"},
		// That an account once had something is history, and not the same in every order.
		data:    `case when t.target_state = 'active' then to_jsonb(t) else jsonb_build_object('id', t.id, 'held', t.held) end`,
		follows: true,
	},
	{name: "subscriptions", key: "id", data: `to_jsonb(t) #- '{state,Version}'`},
	// In which parts a payment was told, and that something was announced, is history.
	{name: "invoices", key: "id", except: []string{"page"},
		data: `to_jsonb(t) #- '{state,PaidSums}' #- '{state,PaidTimes}' #- '{state,PaidBy}' #- '{state,Untold}' #- '{state,Misread}'`},
	// The order of delivery decides which refund of a purchase has the last minor unit of its tax.
	{name: "objects", key: "kind || ' ' || id", data: `case when t.kind = 'refund'
		then to_jsonb(t) #- '{state,Announced}' #- '{state,Tax}' #- '{state,Taxed}'
		else to_jsonb(t) #- '{state,Announced}' #- '{state,Captures}' end`},
	{name: "grants", key: "object"},
	// Rows to settle and to book count from the moment that they were written. Whether a workspace exists to be kept,
	// or to follow a hold or a repair, is history.
	{name: "due", key: "object || ' ' || why || ' ' || at", except: []string{"next_at"},
		where: "why not in ('settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold', 'changed', 'ended', 'taken')", clock: "t.at <= $4"},
}

// written lists what Apply writes beside the projections.
var written = []string{"outbox", "tasks"}

// Progress is told how many of the objects are folded.
type Progress func(done, all int)

// Check folds objects anew from their facts, with the code that applies them, and returns how the rows differ from
// what that comes to. It writes to temporary tables of one transaction, which is rolled back: nobody else sees it,
// and no row is locked. conn is for this alone: close it afterwards, since its prepared statements know the temporary
// tables. It folds by p, whatever is in force. An account to which an object would move is folded as well.
//
// Grants whose end is before at have ended. Zero is the time of the snapshot, by the database's clock. A row whose time
// has come may be there, or a run of the clock has taken it; neither is a difference. The account's access is not
// compared in between. With a time before the snapshot, later runs of the clock appear as differences.
func Check(ctx context.Context, conn *pgx.Conn, of Scope, p fact.Policy, at time.Time, told Progress) ([]Difference,
	error) {
	is, err := foresee(ctx, conn, p, at, told, func(f *folding) ([]Scope, error) {
		if of == (Scope{}) {
			return nil, nil
		}
		return []Scope{of}, nil
	})
	return is.Differences, err
}

// Forecast is what a fold comes to that is not made yet.
type Forecast struct {
	Differences []Difference
	// Tasks are those that it would open or close: about prices, and about entries that are booked otherwise.
	Tasks []TaskChange
}

// Foresee is [Check] with the facts of a reading that is not appended yet, for the accounts that these are about.
func Foresee(ctx context.Context, conn *pgx.Conn, with Rereading, p fact.Policy, at time.Time,
	told Progress) (Forecast, error) {
	return foresee(ctx, conn, p, at, told, func(f *folding) ([]Scope, error) {
		f.asks = true
		if err := with.append(ctx, f.tx); err != nil {
			return nil, err
		}
		return with.about(ctx, f.tx)
	})
}

// CheckSwitch is [Check] for a switch from one meaning to another: where they differ in prices, plans and connected
// accounts alone, of the accounts whose facts name one of those, else of all.
func CheckSwitch(ctx context.Context, conn *pgx.Conn, from, to fact.Policy, at time.Time,
	told Progress) (Forecast, error) {
	return foresee(ctx, conn, to, at, told, func(f *folding) (about []Scope, err error) {
		f.asks = true
		names, connected, alone := to.Differing(from)
		if !alone {
			return nil, nil
		}
		f.yields = true
		const aloneSQL = `set local max_parallel_workers_per_gather = 0` // for the same reason
		if _, err := f.tx.Exec(ctx, aloneSQL); err != nil {
			return nil, err
		}
		for _, mode := range []string{"live", "test"} {
			objects, err := schema.Rows(ctx, f.tx, "read objects", pgx.RowTo[string], namingSQL, mode, names, connected)
			if err != nil {
				return nil, err
			}
			accounts, err := schema.Rows(ctx, f.tx, "read accounts", pgx.RowTo[string], accountsOfSQL, mode, objects)
			if err != nil {
				return nil, err
			}
			f.objects[mode] = objects
			for _, account := range append(accounts, "") {
				about = append(about, Scope{mode, account})
			}
		}
		return about, nil
	})
}

// compare returns the rows of a table that are not those of the temporary one: of what was folded, and of the accounts
// that were.
func (f *folding) compare(ctx context.Context, p projection) ([]Difference, error) {
	there, folded := pgx.Identifier{f.home, p.name}, pgx.Identifier{"pg_temp", p.name}
	where := " where $4::timestamptz is not null"
	if p.where != "" {
		where += " and " + p.where
	}
	if p.follows {
		where += ` and (t.mode, t.` + p.account() + `) not in
			(select mode, account from ` + pgx.Identifier{f.home, "due"}.Sanitize() + ` where at <= $4 and why in ('end', 'grace', 'one_off'))`
	}
	concerned := ` and ($2::text[] is null
		or (t.mode, t.` + p.account() + `) in (select * from unnest($2::text[], $3::text[]))
		or (t.mode, ` + p.key + `) in (select mode, ` + p.key + ` from ` + folded.Sanitize() + `))`
	side := func(table pgx.Identifier, where string) string {
		return `(select mode, ` + p.key + ` as key, (` + cmp.Or(p.data, "to_jsonb(t)") + `) - $1::text[] as data, ` +
			cmp.Or(p.clock, "false") + ` as clock from ` +
			table.Sanitize() + ` t` + where + `)`
	}
	sql := `select mode, key, l.data, f.data
  from ` + side(there, where+concerned) + ` l full join ` + side(folded, where) + ` f using (mode, key)
 where l.data is distinct from f.data and not (l.data is null and f.clock) order by mode, key`
	var modes, accounts []string // null for all
	if f.scopes != nil {
		modes, accounts = []string{}, []string{}
	}
	for of := range f.scopes {
		if of.Account != "" {
			modes, accounts = append(modes, of.Mode), append(accounts, of.Account)
		}
	}
	except := slices.Concat(alwaysExcept, p.except)
	return schema.Rows(ctx, f.tx, "read "+p.name, func(row pgx.CollectableRow) (Difference, error) {
		d := Difference{Table: p.name}
		var is, folded []byte
		if err := row.Scan(&d.Mode, &d.Row, &is, &folded); err != nil {
			return d, err
		}
		var err error
		d.letters, err = p.letters(is, folded)
		err = errors.Join(err, unmarshal(is, &d.Is), unmarshal(folded, &d.Folded))
		for _, side := range []map[string]any{d.Folded, d.Is} {
			if account, ok := side[p.account()].(string); ok && account != "" {
				d.Account = account
			}
		}
		d.Columns = d.narrow()
		return d, err
	}, sql, except, modes, accounts, f.at)
}

// empty reports whether an account is there on one side only, and has nothing.
func (d Difference) empty() bool {
	has := func(side map[string]any) bool {
		return side != nil && (side["target_state"] != nil || side["held"] == true)
	}
	return d.Table == "accounts" && (d.Is == nil || d.Folded == nil) && !has(d.Is) && !has(d.Folded)
}

func unmarshal(data []byte, into *map[string]any) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

// account is the column that says whose a row is.
func (p projection) account() string {
	if p.name == "accounts" {
		return "id"
	}
	return "account"
}

// narrow leaves only what differs, and names it; fields of the state as "state.Name".
func (d *Difference) narrow() (columns []string) {
	if d.Is == nil || d.Folded == nil {
		return []string{""}
	}
	d.Is, d.Folded = flat(d.Is), flat(d.Folded)
	names := maps.Clone(d.Is)
	maps.Copy(names, d.Folded)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		is, folded := fmt.Sprint(d.Is[name]), fmt.Sprint(d.Folded[name])
		if is != folded {
			columns = append(columns, name)
			continue
		}
		delete(d.Is, name)
		delete(d.Folded, name)
	}
	return columns
}

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

// String names the difference in one line, without its values.
func (d Difference) String() string {
	row := d.Table + " " + d.Row + " (" + d.Mode + ")"
	switch {
	case d.Is == nil:
		return row + ": is missing"
	case d.Folded == nil:
		return row + ": no fact tells of it"
	}
	return row + ": " + strings.Join(d.Columns, ", ")
}

// namingSQL reads all facts of a mode: a person waits for it, and an index would cost every event. It finds the objects
// whose facts name a price or a plan, or are of a connected account, and their customers.
const namingSQL = `
with naming as materialized (
    select distinct object, customer from facts
     where mode = $1 and jsonb_path_exists(data, '$.** ? (@ == $names[*])', jsonb_build_object('names', $2::text[]))
        or mode = $1 and provider_account = any($3))
select object from naming union select customer from naming where customer <> ''`

const accountsOfSQL = `
select distinct account from ` + placed + ` where mode = $1 and account <> '' and id = any($2)`
