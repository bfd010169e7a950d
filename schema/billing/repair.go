package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/outbox"
)

// These stand for the effect's key where facts were folded anew. The news say them as the cause.
const (
	rebuilt  = "rebuild"
	refolded = "meaning"
	reread   = "reread"
)

// Repair folds the objects of an account anew, and writes the rows, the target and the news that change. The clock
// brings the workspace to the target. No once effect and no letter follows. Each object has a transaction of its own,
// as for its events. at is the time that decides which grants the clock has ended; zero means the database's clock.
// Like [Apply], it goes by the meaning in force, and by p where none is yet. It returns how many objects it has folded.
// An account's objects are those that its rows name, those that facts about its customers are about, and the refunds,
// disputes and warnings of all of these.
func Repair(ctx context.Context, pool *pgxpool.Pool, of Scope, p fact.Policy, at time.Time) (objects int, err error) {
	return of.repair(ctx, pool, p, at, rebuilt, nil)
}

// Refold is [Repair] for an account whose rows are another meaning's. A person is asked about what is booked otherwise.
func Refold(ctx context.Context, pool *pgxpool.Pool, of Scope, p fact.Policy, at time.Time,
	how Anew) (objects int, err error) {
	return of.repair(ctx, pool, p, at, refolded, &how)
}

// RefoldReread is [Refold] for an account whose facts were read again.
func RefoldReread(ctx context.Context, pool *pgxpool.Pool, of Scope, p fact.Policy, at time.Time,
	how Anew) (objects int, err error) {
	return of.repair(ctx, pool, p, at, reread, &how)
}

func (s Scope) repair(ctx context.Context, pool *pgxpool.Pool, p fact.Policy, at time.Time, cause string,
	anew *Anew) (objects int, err error) {
	fail := func(done int, err error) (int, error) {
		return done, fmt.Errorf("repair account %s: %w", s.Account, err)
	}
	facts, err := factsOf(ctx, pool, s.Mode, []string{s.Account}, nil)
	if err != nil {
		return fail(0, err)
	}
	// Objects that no fact tells of go first: others are folded with them.
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return s.takeUntold(ctx, tx, anew) }); err != nil {
		return fail(0, err)
	}
	for i, f := range facts {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			a := applying{tx: tx, policy: p, key: cause, at: at, how: repairing, anew: anew, facts: []fact.Fact{f}}
			_, err := a.run(ctx)
			return err
		}); err != nil {
			return fail(i, err)
		}
	}
	if s.Account == "" {
		return len(facts), nil
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return s.takeRest(ctx, tx, p, at, cause) })
	if err != nil {
		return fail(len(facts), err)
	}
	return len(facts), nil
}

// takeUntold takes the rows of objects that no fact tells of, and asks about what is booked of them.
func (s Scope) takeUntold(ctx context.Context, tx pgx.Tx, anew *Anew) error {
	b := &pgx.Batch{}
	for _, sql := range []string{takeUntoldInvoicesSQL, takeUntoldSQL} {
		gone, err := schema.Rows(ctx, tx, "read what no fact tells of", pgx.RowTo[string], sql, s.Mode, s.Account)
		if err != nil {
			return err
		}
		for _, id := range gone {
			if anew == nil {
				break
			}
			if err := anew.ask(ctx, tx, b, s.Mode, id, cash{}); err != nil {
				return err
			}
		}
	}
	return tx.SendBatch(ctx, b).Close()
}

// takeRest takes the rows that nothing tells of by now, and what they granted. Like a fold, it locks the meaning first,
// then the account.
func (s Scope) takeRest(ctx context.Context, tx pgx.Tx, p fact.Policy, at time.Time, cause string) error {
	a := applying{tx: tx, policy: p, key: cause, at: at, how: repairing, holds: s.Account}
	a.subject.Mode = s.Mode
	b := &pgx.Batch{}
	a.readMeaning(b)
	b.Queue(holdAccountSQL, s.Mode, s.Account)
	for _, sql := range []string{takeSubscriptionsSQL, takePaymentsSQL, takeDueOfNoneSQL, endTasksOfNoneSQL} {
		b.Queue(sql, s.Mode, s.Account)
	}
	b.Queue(askForPricesSQL, s.Mode, s.Account, TaskPrice, cause)
	taken := 0
	b.Queue(takeUnknownSQL, s.Mode, s.Account).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		taken = len(list)
		return err
	})
	b.Queue(lastOfAccountSQL, s.Mode, s.Account).Query(func(rows pgx.Rows) (err error) {
		a.facts, err = pgx.CollectRows(rows, scanFact)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil || taken == 0 || len(a.facts) == 0 {
		return err
	}
	a.subject = a.facts[0].Subject
	if err := a.access(ctx); err != nil {
		return err
	}
	return a.write(ctx)
}

// told is the condition of a row t that a fact is about; rowless that of an object without a row. It looks each up by
// its key: a join would read the tables.
const (
	told    = `exists (select from current_facts f where f.object = t.id collate "C" and f.mode = t.mode)`
	rowless = `(select r.id from subscriptions r where r.mode = t.mode and r.id = t.object) is null
   and (select r.id from invoices r where r.mode = t.mode and r.id = t.object) is null
   and (select r.id from objects r where r.mode = t.mode and r.id = t.object limit 1) is null`
)

// A subscription can be there by its invoices alone, and a payment by its refunds.
const (
	takeUntoldInvoicesSQL = `delete from invoices t where mode = $1 and account = $2 and not ` + told + ` returning id`
	takeUntoldSQL         = `delete from objects t where mode = $1 and account = $2 and kind <> 'payment' and not ` + told + ` returning id`

	takeSubscriptionsSQL = `
delete from subscriptions t where mode = $1 and account = $2 and not ` + told + `
   and (select i.id from invoices i where i.mode = t.mode and i.subscription = t.id and i.subscription <> '' limit 1) is null`

	takePaymentsSQL = `
delete from objects t where mode = $1 and account = $2 and kind = 'payment' and not ` + told + `
   and (select o.id from objects o where o.mode = t.mode and o.payment = t.id and o.payment <> '' and o.id <> t.id limit 1) is null`

	takeUnknownSQL = `delete from grants t where mode = $1 and account = $2 and ` + rowless + ` returning object`

	takeDueOfNoneSQL = `
delete from due t where account = $2 and mode = $1 and why in ('end', 'grace', 'one_off', 'ending', 'dunning', 'settle', 'renewal')
   and ` + rowless

	endTasksOfNoneSQL = `
with changed as (update tasks t set state = 'cancelled', updated_at = now()
 where mode = $1 and account = $2 and state = 'open' and kind in ('dispute', 'inquiry', 'fraud_warning', 'reconcile', 'correction')
   and ` + rowless + outbox.TasksClosed
)

const holdAccountSQL = `select from accounts where mode = $1 and id = $2 for update`

// lastOfAccountSQL takes a fact of the account's customers, one that does not count any more among them.
const lastOfAccountSQL = `
select ` + factColumns + ` from facts
 where mode = $1 and customer <> '' and customer = any(array(select customer from accounts where mode = $1 and id = $2
       union select customer from invoices where mode = $1 and account = $2
       union select customer from subscriptions where mode = $1 and account = $2))
 order by id desc limit 1`
