package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// preview is a recomputation in temporary tables.
type preview struct {
	Request
	tx       pgx.Tx
	progress Progress
	// yields is set if the computation pauses after each step for as long as the step took, so that deliveries get half
	// of the database's time.
	yields bool
	// home is the schema that contains the stored tables. path is the search path of the session.
	home, path string
	// scopes are the accounts to recompute; nil means all.
	scopes map[billing.Scope]bool
	// objects contains further objects to recompute, by mode. folded contains all objects that were recomputed.
	objects map[string][]string
	folded  map[string]bool
}

func (p *preview) forecast(ctx context.Context) (is Forecast, err error) {
	scopes, err := p.pick(ctx)
	if err != nil {
		return is, err
	}
	if scopes != nil {
		p.scopes = map[billing.Scope]bool{}
	}
	facts, err := p.facts(ctx, scopes) // read them before the temporary tables hide the stored ones
	if err == nil {
		err = p.hideTables(ctx)
	}
	for err == nil && len(facts) > 0 {
		if err = p.fold(ctx, facts); err == nil {
			facts, err = p.reached(ctx)
		}
	}
	for _, table := range projections {
		if err == nil {
			var found []Difference
			found, err = p.compare(ctx, table)
			is.Rows = append(is.Rows, slices.DeleteFunc(found, Difference.empty)...)
		}
	}
	var entries map[booked]Entry
	if err == nil && (p.From != nil || p.Reparse != nil) { // a repair of rows opens no task
		entries, err = p.entries(ctx, is.Rows)
	}
	is.Impacts = impactsOf(is.Rows, entries)
	return is, err
}

// facts returns one fact for each object of the accounts that is not recomputed yet.
func (p *preview) facts(ctx context.Context, scopes []billing.Scope) ([]fact.Fact, error) {
	if p.scopes == nil {
		return schema.Rows(ctx, p.tx, "read facts", billing.ScanFact, factOfAllSQL)
	}
	byMode := map[string][]string{}
	for _, of := range scopes {
		p.scopes[of] = true
		byMode[of.Mode] = append(byMode[of.Mode], of.Account)
	}
	var all []fact.Fact
	for mode, accounts := range byMode {
		facts, err := factsOf(ctx, p.tx, mode, accounts, p.objects[mode])
		if err != nil {
			return nil, err
		}
		all = append(all, facts...)
	}
	p.objects = nil
	return slices.DeleteFunc(all, func(f fact.Fact) bool {
		object := strings.Join([]string{f.Mode, f.Provider, f.ProviderAccount, f.Object}, "/")
		known := p.folded[object]
		p.folded[object] = true
		return known
	}), nil
}

// hideTables creates an empty temporary table for each table that Apply writes. Postgres searches temporary tables
// first.
func (p *preview) hideTables(ctx context.Context) error {
	const sql = `select current_schema(), current_setting('search_path')`
	if err := p.tx.QueryRow(ctx, sql).Scan(&p.home, &p.path); err != nil {
		return err
	}
	names := []string{"outbox", "tasks"} // Apply writes them, but facts alone do not determine their rows
	for _, table := range projections {
		names = append(names, table.name)
	}
	for _, name := range names {
		like := pgx.Identifier{p.home, name}.Sanitize()
		if _, err := p.tx.Exec(ctx, `create temporary table `+pgx.Identifier{name}.Sanitize()+` (like `+like+
			` including all) on commit drop`); err != nil {
			return fmt.Errorf("make a temporary table of %s (the role needs TEMPORARY on the database): %w", name, err)
		}
	}
	return nil
}

// fold applies the facts to the temporary tables.
func (p *preview) fold(ctx context.Context, facts []fact.Fact) error {
	if err := p.tx.Conn().DeallocateAll(ctx); err != nil { // they were prepared with the stored tables
		return err
	}
	scratch := billing.Recompute{Cause: billing.CauseRows, Policy: p.Rules, At: p.At, Scratch: true}
	for i, next := range facts {
		if p.progress != nil && i%1000 == 0 {
			p.progress(i, len(facts))
		}
		begin := time.Now()
		if err := scratch.Apply(ctx, p.tx, next); err != nil {
			return err
		}
		if p.yields {
			select {
			case <-time.After(time.Since(begin)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if p.progress != nil {
		p.progress(len(facts), len(facts))
	}
	return nil
}

// reached returns facts of further accounts: accounts that own a recomputed object and are not recomputed yet.
func (p *preview) reached(ctx context.Context) ([]fact.Fact, error) {
	if p.scopes == nil {
		return nil, nil
	}
	found, err := schema.Rows(ctx, p.tx, "read accounts", pgx.RowToStructByPos[billing.Scope], reachedSQL)
	found = slices.DeleteFunc(found, func(of billing.Scope) bool { return p.scopes[of] })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	const searchSQL = `select set_config('search_path', $1, true)`
	if _, err := p.tx.Exec(ctx, searchSQL, p.path+", pg_temp"); err != nil { // search the stored tables first
		return nil, err
	}
	if err := p.tx.Conn().DeallocateAll(ctx); err != nil {
		return nil, err
	}
	facts, err := p.facts(ctx, found)
	if err == nil {
		_, err = p.tx.Exec(ctx, searchSQL, p.path)
	}
	return facts, err
}

// reachedSQL reads the accounts of recomputed objects from the temporary tables.
const reachedSQL = `
select mode, account from subscriptions where account <> '' union select mode, account from invoices where account <> ''
union select mode, account from objects where account <> '' union select mode, account from grants where account <> ''`

// compare returns the rows of a table that differ between the stored and the temporary table. It compares all rows of
// the recomputed objects and accounts.
func (p *preview) compare(ctx context.Context, table projection) ([]Difference, error) {
	var modes, accounts []string // null means all
	if p.scopes != nil {
		modes, accounts = []string{}, []string{}
	}
	for of := range p.scopes {
		if of.Account != "" {
			modes, accounts = append(modes, of.Mode), append(accounts, of.Account)
		}
	}
	except := slices.Concat(alwaysExcept, table.except)
	return schema.Rows(ctx, p.tx, "compare "+table.name, func(row pgx.CollectableRow) (Difference, error) {
		var mode, key string
		var stored, computed []byte
		if err := row.Scan(&mode, &key, &stored, &computed); err != nil {
			return Difference{}, err
		}
		return table.difference(mode, key, stored, computed)
	}, table.compareSQL(p.home), except, modes, accounts, p.At)
}

// compareSQL compares the stored table in schema home with its temporary copy. $1 lists columns to ignore, $2 the modes
// and $3 the accounts to compare, and $4 is the time.
func (p projection) compareSQL(home string) string {
	stored, computed := pgx.Identifier{home, p.name}, pgx.Identifier{"pg_temp", p.name}
	where := " where $4::timestamptz is not null"
	if p.where != "" {
		where += " and " + p.where
	}
	if p.follows {
		where += ` and (t.mode, t.` + p.account() + `) not in
			(select mode, account from ` + pgx.Identifier{home, "due"}.Sanitize() + ` where at <= $4 and why in ('end', 'grace', 'one_off'))`
	}
	concerned := ` and ($2::text[] is null
		or (t.mode, t.` + p.account() + `) in (select * from unnest($2::text[], $3::text[]))
		or (t.mode, ` + p.key + `) in (select mode, ` + p.key + ` from ` + computed.Sanitize() + `))`
	side := func(table pgx.Identifier, where string) string {
		return `(select mode, ` + p.key + ` as key, (` + cmp.Or(p.data, "to_jsonb(t)") + `) - $1::text[] as data, ` +
			cmp.Or(p.clock, "false") + ` as clock from ` +
			table.Sanitize() + ` t` + where + `)`
	}
	return `select mode, key, l.data, f.data
  from ` + side(stored, where+concerned) + ` l full join ` + side(computed, where) + ` f using (mode, key)
 where l.data is distinct from f.data and not (l.data is null and f.clock) order by mode, key`
}
