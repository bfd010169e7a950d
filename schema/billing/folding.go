package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// foresee folds the accounts that pick returns, all if it returns nil.
func foresee(ctx context.Context, conn *pgx.Conn, p fact.Policy, at time.Time, told Progress,
	pick func(*folding) ([]Scope, error)) (is Forecast, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil && at.IsZero() {
		err = tx.QueryRow(ctx, snapshotTimeSQL).Scan(&at)
	}
	if err == nil {
		f := &folding{tx: tx, policy: p, at: at, told: told, objects: map[string][]string{}, folded: map[string]bool{}}
		is, err = f.forecast(ctx, pick)
		err = cmp.Or(err, tx.Rollback(ctx))
	}
	if err != nil {
		return is, fmt.Errorf("rebuild: %w", err)
	}
	return is, nil
}

// snapshotTimeSQL takes the snapshot of its transaction. The time is not before any commit that the snapshot shows.
const snapshotTimeSQL = `select clock_timestamp()`

func (f *folding) forecast(ctx context.Context, pick func(*folding) ([]Scope, error)) (is Forecast, err error) {
	scopes, err := pick(f)
	if err != nil {
		return is, err
	}
	if scopes != nil {
		f.scopes = map[Scope]bool{}
	}
	facts, err := f.facts(ctx, scopes) // before the rows that name an account's objects are hidden
	if err == nil {
		err = f.scratch(ctx)
	}
	for err == nil && len(facts) > 0 {
		if err = f.fold(ctx, facts); err == nil {
			facts, err = f.reached(ctx)
		}
	}
	for _, table := range projections {
		if err == nil {
			var found []Difference
			found, err = f.compare(ctx, table)
			is.Differences = append(is.Differences, slices.DeleteFunc(found, Difference.empty)...)
		}
	}
	if err == nil && f.asks {
		is.Tasks, err = f.tasks(ctx, is.Differences)
	}
	return is, err
}

// folding is a fold in temporary tables.
type folding struct {
	tx     pgx.Tx
	policy fact.Policy
	at     time.Time
	told   Progress
	// asks is set where tasks are compared as well.
	asks bool
	// yields is set where every other moment is left to deliveries.
	yields bool
	// home is the schema of the other tables.
	home string
	// scopes are the accounts that are folded, nil for all.
	scopes map[Scope]bool
	// objects are those by mode that the first round folds whosever they are, folded are those that were found.
	objects map[string][]string
	folded  map[string]bool
	// path is the search path of home.
	path string
}

// facts returns one fact of each object of accounts that are not folded yet.
func (f *folding) facts(ctx context.Context, scopes []Scope) ([]fact.Fact, error) {
	if f.scopes == nil {
		return schema.Rows(ctx, f.tx, "read facts", scanFact, objectsSQL)
	}
	byMode := map[string][]string{}
	for _, of := range scopes {
		f.scopes[of] = true
		byMode[of.Mode] = append(byMode[of.Mode], of.Account)
	}
	var all []fact.Fact
	for mode, accounts := range byMode {
		facts, err := factsOf(ctx, f.tx, mode, accounts, f.objects[mode])
		if err != nil {
			return nil, err
		}
		all = append(all, facts...)
	}
	f.objects = nil
	return slices.DeleteFunc(all, func(fact fact.Fact) bool {
		object := objectName(fact)
		known := f.folded[object]
		f.folded[object] = true
		return known
	}), nil
}

// objectName names the object of a fact among those of all modes and connected accounts.
func objectName(f fact.Fact) string {
	return strings.Join([]string{f.Mode, f.Provider, f.ProviderAccount, f.Object}, "/")
}

// fold applies the facts.
func (f *folding) fold(ctx context.Context, facts []fact.Fact) error {
	if err := f.tx.Conn().DeallocateAll(ctx); err != nil { // they were prepared with the other tables
		return err
	}
	for i, next := range facts {
		if f.told != nil && i%1000 == 0 {
			f.told(i, len(facts))
		}
		begin := time.Now()
		if _, err := apply(ctx, f.tx, []fact.Fact{next}, f.policy, rebuilt, f.at, inScratch); err != nil {
			return err
		}
		if f.yields {
			select {
			case <-time.After(time.Since(begin)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if f.told != nil {
		f.told(len(facts), len(facts))
	}
	return nil
}

// reached returns the facts of accounts that an object has come to, and that are not folded yet.
func (f *folding) reached(ctx context.Context) ([]fact.Fact, error) {
	if f.scopes == nil {
		return nil, nil
	}
	found, err := schema.Rows(ctx, f.tx, "read accounts", pgx.RowToStructByPos[Scope], reachedSQL)
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

// reachedSQL finds the accounts of what was folded, in the temporary tables.
const reachedSQL = `
select mode, account from subscriptions where account <> '' union select mode, account from invoices where account <> ''
union select mode, account from objects where account <> '' union select mode, account from grants where account <> ''`
