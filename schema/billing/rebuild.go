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
		name: "accounts", key: "id", except: []string{"customer", "target_version", "over_at", "folded_at",
			"reconciled_at"},
		// That an account once had something is history, and not the same in every order.
		data:    `case when t.target_state = 'active' then to_jsonb(t) else jsonb_build_object('id', t.id, 'held', t.held) end`,
		follows: true,
	},
	{name: "subscriptions", key: "id", data: `to_jsonb(t) #- '{state,Version}'`},
	// In which parts a payment was told, and that something was announced, is history.
	{name: "invoices", key: "id", except: []string{"page"}, data: `to_jsonb(t) #- '{state,PaidSums}'`},
	{name: "objects", key: "kind || ' ' || id", data: `to_jsonb(t) #- '{state,Announced}'`},
	{name: "grants", key: "object"},
	// Rows to settle and to book count from the moment that they were written. Whether a workspace exists to be kept,
	// or to follow a hold or a repair, is history.
	{name: "due", key: "object || ' ' || why || ' ' || at", except: []string{"next_at"},
		where: "why not in ('settle', 'book', 'renewal', 'add_on', 'keep', 'hold', 'refold')", clock: "t.at <= $4"},
	{name: "entitlements", key: "account || ' ' || feature", where: "enabled", follows: true},
}

// written lists what Apply writes beside the projections.
var written = []string{"outbox", "tasks"}

// Progress is told how many of the objects are folded.
type Progress func(done, all int)

// Scope selects what to fold anew: one account in one mode, or everything if it is zero. A mode alone selects what
// later readings tell of objects without an account.
type Scope struct {
	Mode    string `json:"mode"`
	Account string `json:"account"`
}

// Check folds objects anew from their facts, with the code that applies them, and returns how the rows differ from
// what that comes to. It writes to temporary tables of one transaction, which is rolled back: nobody else sees it,
// and no row is locked. conn is for this alone: close it afterwards, since its prepared statements know the temporary
// tables. It folds by p, whatever is in force. An account to which an object would move is folded as well.
//
// at is the time for what the clock ends. A row whose time has come may be there, or taken by the clock's run;
// neither is a difference. The account's access is not compared in between.
func Check(ctx context.Context, conn *pgx.Conn, of Scope, p Policy, at time.Time, told Progress) ([]Difference, error) {
	return foresee(ctx, conn, p, at, told, func(f *folding) ([]Scope, error) {
		if of == (Scope{}) {
			return nil, nil
		}
		return []Scope{of}, nil
	})
}

// Foresee is [Check] with the facts of a reading that is not appended yet, for the accounts that these are about.
func Foresee(ctx context.Context, conn *pgx.Conn, with Rereading, p Policy, at time.Time,
	told Progress) ([]Difference, error) {
	return foresee(ctx, conn, p, at, told, func(f *folding) ([]Scope, error) {
		if err := with.append(ctx, f.tx); err != nil {
			return nil, err
		}
		return with.about(ctx, f.tx)
	})
}

// CheckSwitch is [Check] for a switch from one meaning to another: where they differ in prices and plans alone, of the
// accounts whose facts name one of those, else of all.
func CheckSwitch(ctx context.Context, conn *pgx.Conn, from, to Policy, at time.Time, told Progress) ([]Difference, error) {
	return foresee(ctx, conn, to, at, told, func(f *folding) (about []Scope, err error) {
		names, alone := to.named(from)
		if !alone {
			return nil, nil
		}
		for _, mode := range []string{"live", "test"} {
			rows, _ := f.tx.Query(ctx, namingSQL, mode, names) // CollectRows returns its error
			objects, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return nil, err
			}
			rows, _ = f.tx.Query(ctx, accountsOfSQL, mode, objects) // CollectRows returns its error
			accounts, err := pgx.CollectRows(rows, pgx.RowTo[string])
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

// foresee folds the accounts that pick returns, all if it returns nil.
func foresee(ctx context.Context, conn *pgx.Conn, p Policy, at time.Time, told Progress,
	pick func(*folding) ([]Scope, error)) (differences []Difference, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	defer func() {
		if rollback := tx.Rollback(ctx); err == nil && !errors.Is(rollback, pgx.ErrTxClosed) {
			err = rollback
		}
	}()
	f := &folding{tx: tx, policy: p, at: at, told: told, objects: map[string][]string{}, folded: map[string]bool{}}
	scopes, err := pick(f)
	if err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	if scopes != nil {
		f.scopes = map[Scope]bool{}
	}
	facts, err := f.facts(ctx, scopes) // before the rows that name an account's objects are hidden
	if err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	if err := f.scratch(ctx); err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	for len(facts) > 0 {
		if err := f.fold(ctx, facts); err != nil {
			return nil, fmt.Errorf("rebuild: %w", err)
		}
		if facts, err = f.reached(ctx); err != nil {
			return nil, fmt.Errorf("rebuild: %w", err)
		}
	}
	for _, table := range projections {
		found, err := f.compare(ctx, table)
		if err != nil {
			return nil, fmt.Errorf("rebuild: compare %s: %w", table.name, err)
		}
		differences = append(differences, slices.DeleteFunc(found, Difference.empty)...)
	}
	return differences, nil
}

// folding is a fold in temporary tables.
type folding struct {
	tx     pgx.Tx
	policy Policy
	at     time.Time
	told   Progress
	// home is the schema of the other tables.
	home string
	// scopes are the accounts that are folded, nil for all.
	scopes map[Scope]bool
	// objects are those by mode that are folded whosever they are, folded are those that were found.
	objects map[string][]string
	folded  map[string]bool
	// path is the search path of home.
	path string
}

// facts returns one fact of each object of accounts that are not folded yet.
func (f *folding) facts(ctx context.Context, scopes []Scope) ([]Fact, error) {
	if f.scopes == nil {
		rows, _ := f.tx.Query(ctx, objectsSQL) // CollectRows returns its error
		return pgx.CollectRows(rows, scanFact)
	}
	byMode := map[string][]string{}
	for _, of := range scopes {
		f.scopes[of] = true
		byMode[of.Mode] = append(byMode[of.Mode], of.Account)
	}
	var all []Fact
	for mode, accounts := range byMode {
		facts, err := factsOf(ctx, f.tx, mode, accounts, f.objects[mode])
		if err != nil {
			return nil, err
		}
		all = append(all, facts...)
	}
	return slices.DeleteFunc(all, func(fact Fact) bool {
		object := fact.object()
		known := f.folded[object]
		f.folded[object] = true
		return known
	}), nil
}

// object names the object of a fact among those of all modes and connected accounts.
func (f Fact) object() string {
	return strings.Join([]string{f.Mode, f.Provider, f.ProviderAccount, f.Object}, "/")
}

// fold applies the facts.
func (f *folding) fold(ctx context.Context, facts []Fact) error {
	if err := f.tx.Conn().DeallocateAll(ctx); err != nil { // they were prepared with the other tables
		return err
	}
	for i, fact := range facts {
		if f.told != nil && i%1000 == 0 {
			f.told(i, len(facts))
		}
		if _, err := apply(ctx, f.tx, []Fact{fact}, f.policy, rebuilt, f.at, inScratch); err != nil {
			return err
		}
	}
	if f.told != nil {
		f.told(len(facts), len(facts))
	}
	return nil
}

// reached returns the facts of accounts that an object has come to, and that are not folded yet.
func (f *folding) reached(ctx context.Context) ([]Fact, error) {
	if f.scopes == nil {
		return nil, nil
	}
	rows, _ := f.tx.Query(ctx, reachedSQL) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Scope])
	found = slices.DeleteFunc(found, func(of Scope) bool { return f.scopes[of] })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	const searchSQL = `select set_config('search_path', $1, true)`
	if _, err := f.tx.Exec(ctx, searchSQL, f.path+", pg_temp"); err != nil { // the other tables first
		return nil, err
	}
	if err := f.tx.Conn().DeallocateAll(ctx); err != nil {
		return nil, err
	}
	facts, err := f.facts(ctx, found)
	if err == nil {
		_, err = f.tx.Exec(ctx, searchSQL, f.path)
	}
	return facts, err
}

// facts returns one fact of each object of an account, as [factsOf] does.
func (s Scope) facts(ctx context.Context, db querier) ([]Fact, error) {
	return factsOf(ctx, db, s.Mode, []string{s.Account}, nil)
}

// factsOf returns one fact of each object of accounts, and of other objects: applying it folds the object from all of its
// facts, since it is there already. Objects come in the order in which they were heard of. The account "" has the objects
// without account of which a later reading tells.
func factsOf(ctx context.Context, db querier, mode string, accounts, others []string) (facts []Fact, err error) {
	if slices.Contains(accounts, "") {
		rows, _ := db.Query(ctx, unplacedSQL, mode) // CollectRows returns its error
		if facts, err = pgx.CollectRows(rows, scanFact); err != nil {
			return nil, err
		}
	}
	objects, err := objectsOf(ctx, db, mode, accounts)
	if err != nil {
		return nil, err
	}
	objects = append(objects, others...)
	// Only facts know of a lost row. The first query finds the objects of the customers, the second the objects about
	// those.
	for _, sql := range []string{objectsOfCustomersSQL, objectsAboutSQL} {
		rows, _ := db.Query(ctx, sql, objects, mode) // CollectRows returns its error
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	rows, _ := db.Query(ctx, factOfEachSQL, objects, mode) // CollectRows returns its error
	of, err := pgx.CollectRows(rows, scanFact)
	return append(facts, of...), err
}

func objectsOf(ctx context.Context, db querier, mode string, accounts []string) ([]string, error) {
	accounts = slices.DeleteFunc(slices.Clone(accounts), func(account string) bool { return account == "" })
	rows, _ := db.Query(ctx, objectsOfAccountsSQL, mode, accounts) // CollectRows returns its error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Objects returns the provider's objects of an account: those that its rows name, and its customers.
func (s Scope) Objects(ctx context.Context, db querier) ([]string, error) {
	objects, err := objectsOf(ctx, db, s.Mode, []string{s.Account})
	if err != nil {
		return nil, fmt.Errorf("list objects of account %q: %w", s.Account, err)
	}
	return objects, nil
}

// Told returns the objects that facts about the account tell of, and its customers.
func (s Scope) Told(ctx context.Context, db querier) (objects []string, err error) {
	facts, err := s.facts(ctx, db)
	for _, f := range facts {
		objects = append(objects, f.Object)
	}
	return objects, err
}

// LastFact returns the last fact that is known of an account's objects, nil for none: of those whose receipt is at rest
// where there are any, since what belongs to another waits for it.
func (s Scope) LastFact(ctx context.Context, db querier) (*Fact, error) {
	objects, err := s.Objects(ctx, db)
	if err != nil {
		return nil, err
	}
	rows, _ := db.Query(ctx, lastFactSQL, objects, s.Mode) // CollectRows returns its error
	facts, err := pgx.CollectRows(rows, scanFact)
	if err != nil || len(facts) == 0 {
		return nil, err
	}
	return &facts[0], nil
}

// scratch makes an empty table beside each that Apply writes. Temporary tables are found before all others.
func (f *folding) scratch(ctx context.Context) error {
	const sql = `select current_schema(), current_setting('search_path')`
	if err := f.tx.QueryRow(ctx, sql).Scan(&f.home, &f.path); err != nil {
		return err
	}
	names := slices.Clone(written)
	for _, p := range projections {
		names = append(names, p.name)
	}
	for _, name := range names {
		like := pgx.Identifier{f.home, name}.Sanitize()
		if _, err := f.tx.Exec(ctx, `create temporary table `+pgx.Identifier{name}.Sanitize()+` (like `+like+
			` including all) on commit drop`); err != nil {
			return fmt.Errorf("make a temporary table of %s (the role needs TEMPORARY on the database): %w", name, err)
		}
	}
	return nil
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
	concerned := ` and ($2::text[] is null or (t.mode, t.` + p.account() + `) in (select * from unnest($2::text[], $3::text[]))
		or (t.mode, ` + p.key + `) in (select mode, ` + p.key + ` from ` + folded.Sanitize() + `))`
	side := func(table pgx.Identifier, where string) string {
		return `(select mode, ` + p.key + ` as key, (` + cmp.Or(p.data, "to_jsonb(t)") + `) - $1::text[] as data, ` +
			cmp.Or(p.clock, "false") + ` as clock from ` +
			table.Sanitize() + ` t` + where + `)`
	}
	sql := `select mode, key, l.data, f.data from ` + side(there, where+concerned) + ` l full join ` + side(folded, where) +
		` f using (mode, key) where l.data is distinct from f.data and not (l.data is null and f.clock) order by mode, key`
	var modes, accounts []string // null for all
	if f.scopes != nil {
		modes, accounts = []string{}, []string{}
	}
	for of := range f.scopes {
		if of.Account != "" {
			modes, accounts = append(modes, of.Mode), append(accounts, of.Account)
		}
	}
	rows, _ := f.tx.Query(ctx, sql, slices.Concat(alwaysExcept, p.except), modes, accounts, f.at) // CollectRows returns its error
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Difference, error) {
		d := Difference{Table: p.name}
		var is, folded []byte
		if err := row.Scan(&d.Mode, &d.Row, &is, &folded); err != nil {
			return d, err
		}
		err := errors.Join(unmarshal(is, &d.Is), unmarshal(folded, &d.Folded))
		for _, side := range []map[string]any{d.Folded, d.Is} {
			if account, ok := side[p.account()].(string); ok && account != "" {
				d.Account = account
			}
		}
		d.Columns = d.narrow()
		return d, err
	})
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

// says puts the payment facts that name an invoice first: the payment's owner is read before the payment is folded.
const says = `(data ? 'Payment' and data->'Payment'->>'Invoice' is null)`

// objectsSQL takes one fact of each object: one that shows it, rather than what a person decided about it.
const objectsSQL = `
select ` + factColumns + ` from (
    select distinct on (mode, provider, provider_account, object) *, min(id) over (partition by mode, provider, provider_account, object) as first
      from current_facts
     order by mode, provider, provider_account, object, ` + says + `, (customer = ''), (data ? 'Decision'), id desc
) f order by first`

const factOfEachSQL = `
select ` + factColumns + ` from (
    select distinct on (mode, provider, provider_account, object) *, min(id) over (partition by mode, provider, provider_account, object) as first
      from current_facts where object = any($1) and mode = $2
     order by mode, provider, provider_account, object, ` + says + `, (customer = ''), (data ? 'Decision'), id desc
) f order by first`

// objectsOfCustomersSQL takes customers among other objects.
const objectsOfCustomersSQL = `
select object from current_facts where customer = any($1) and customer <> '' and mode = $2`

// objectsAboutSQL reads all facts of three kinds: a repair is rare, and an index would cost every event.
const objectsAboutSQL = `
select distinct object from current_facts, jsonb_each(data) as part(name, value)
 where mode = $2 and kind in ('refund_seen', 'dispute_seen', 'warning_seen') and (value->>'Charge' = any($1) or value->>'PaymentIntent' = any($1))`

const lastFactSQL = `
select ` + factColumns + ` from current_facts f
 where object = any($1) and mode = $2
 order by (select r.status in ('processed', 'compensated') from receipts r where r.id = f.receipt_id) desc nulls last, id desc limit 1`

const objectsOfAccountsSQL = `
select distinct o.id from unnest($2::text[]) wanted (account), lateral (
      select id from subscriptions where mode = $1 and account = wanted.account
union select id from invoices where mode = $1 and account = wanted.account
union select object from grants where mode = $1 and account = wanted.account
union select customer from accounts where mode = $1 and id = wanted.account
union select customer from subscriptions where mode = $1 and account = wanted.account
union select customer from invoices where mode = $1 and account = wanted.account
union select id from objects where mode = $1 and account = wanted.account
union select object from facts where object = wanted.account and mode = $1 and kind in ('held', 'released')) o`

// reachedSQL finds the accounts of what was folded, in the temporary tables.
const reachedSQL = `
select mode, account from subscriptions where account <> '' union select mode, account from invoices where account <> ''
union select mode, account from objects where account <> '' union select mode, account from grants where account <> ''`

// namingSQL reads all facts of a mode: a person waits for it, and an index would cost every event. It finds the objects
// whose facts name a price or a plan, and their customers.
const namingSQL = `
with naming as materialized (
    select distinct object, customer from facts
     where mode = $1 and jsonb_path_exists(data, '$.** ? (@ == $names[*])', jsonb_build_object('names', $2::text[])))
select object from naming union select customer from naming where customer <> ''`

const accountsOfSQL = `
select distinct account from ` + placed + ` where mode = $1 and account <> '' and id = any($2)`
