package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/outbox"
)

// Account recomputes the objects of an account. It writes the changed rows and the target of the workspace, and
// publishes the changed events. With the zero account, it recomputes the objects without an account that a later parse
// found. It returns the number of recomputed objects.
//
// The objects of an account are the objects in its rows, the objects in facts about its customers, and the refunds,
// disputes and warnings of all of these. Each object is written in a transaction of its own, as for an event. If
// Account fails, the objects that were already written keep their new state, and a second call writes the others.
func Account(ctx context.Context, pool *pgxpool.Pool, of billing.Scope,
	how billing.Recompute) (objects int, err error) {
	fail := func(done int, err error) (int, error) {
		return done, fmt.Errorf("recompute account %s: %w", of.Account, err)
	}
	facts, err := factsOf(ctx, pool, of.Mode, []string{of.Account}, nil)
	if err != nil {
		return fail(0, err)
	}
	// Rows without facts are deleted first, because other objects depend on them.
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return deleteObjects(ctx, tx, of, how) }); err != nil {
		return fail(0, err)
	}
	for i, f := range facts {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return how.Apply(ctx, tx, f) }); err != nil {
			return fail(i, err)
		}
	}
	if of.Account == "" {
		return len(facts), nil
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return how.Account(ctx, tx, of, func() (*fact.Fact, error) { return deleteRest(ctx, tx, of) })
	})
	if err != nil {
		return fail(len(facts), err)
	}
	return len(facts), nil
}

// deleteObjects deletes the rows of objects without facts. It also opens tasks about the booked entries of these
// objects.
func deleteObjects(ctx context.Context, tx pgx.Tx, of billing.Scope, how billing.Recompute) error {
	b := &pgx.Batch{}
	for _, sql := range []string{deleteInvoicesSQL, deleteObjectsSQL} {
		deleted, err := schema.Rows(ctx, tx, "delete rows without facts", pgx.RowTo[string], sql, of.Mode, of.Account)
		if err != nil {
			return err
		}
		for _, id := range deleted {
			if err := how.Removed(ctx, tx, b, of.Mode, id); err != nil {
				return err
			}
		}
	}
	return tx.SendBatch(ctx, b).Close()
}

// deleteRest deletes the rows of objects that no longer exist: subscriptions, payments, scheduled actions, tasks and
// grants. If it deleted a grant, it returns the last fact of the account's customers, or nil if they have none.
func deleteRest(ctx context.Context, tx pgx.Tx, of billing.Scope) (last *fact.Fact, err error) {
	b := &pgx.Batch{}
	for _, sql := range []string{deleteSubscriptionsSQL, deletePaymentsSQL, deleteDueSQL, cancelTasksSQL} {
		b.Queue(sql, of.Mode, of.Account)
	}
	deleted := 0
	b.Queue(deleteGrantsSQL, of.Mode, of.Account).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		deleted = len(list)
		return err
	})
	b.Queue(lastOfAccountSQL, of.Mode, of.Account).Query(func(rows pgx.Rows) error {
		facts, err := pgx.CollectRows(rows, billing.ScanFact)
		if deleted > 0 && len(facts) > 0 {
			last = &facts[0]
		}
		return err
	})
	return last, tx.SendBatch(ctx, b).Close()
}

// hasFact selects a row t if there is a fact about its object. hasNoRow selects a row t if its object has no row. Both
// search by key, because a join would read whole tables.
const (
	hasFact  = `exists (select from current_facts f where f.object = t.id collate "C" and f.mode = t.mode)`
	hasNoRow = `(select r.id from subscriptions r where r.mode = t.mode and r.id = t.object) is null
   and (select r.id from invoices r where r.mode = t.mode and r.id = t.object) is null
   and (select r.id from objects r where r.mode = t.mode and r.id = t.object limit 1) is null`
)

// A subscription without facts is kept if an invoice refers to it, and a payment if a refund or a dispute refers to it.
const (
	deleteInvoicesSQL = `delete from invoices t where mode = $1 and account = $2 and not ` + hasFact + ` returning id`
	deleteObjectsSQL  = `delete from objects t where mode = $1 and account = $2 and kind <> 'payment' and not ` + hasFact + ` returning id`

	deleteSubscriptionsSQL = `
delete from subscriptions t where mode = $1 and account = $2 and not ` + hasFact + `
   and (select i.id from invoices i where i.mode = t.mode and i.subscription = t.id and i.subscription <> '' limit 1) is null`

	deletePaymentsSQL = `
delete from objects t where mode = $1 and account = $2 and kind = 'payment' and not ` + hasFact + `
   and (select o.id from objects o where o.mode = t.mode and o.payment = t.id and o.payment <> '' and o.id <> t.id limit 1) is null`

	deleteGrantsSQL = `delete from grants t where mode = $1 and account = $2 and ` + hasNoRow + ` returning object`

	deleteDueSQL = `
delete from due t where account = $2 and mode = $1 and why in ('end', 'grace', 'one_off', 'ending', 'dunning', 'settle', 'renewal')
   and ` + hasNoRow

	cancelTasksSQL = `
with changed as (update tasks t set state = 'cancelled', updated_at = now()
 where mode = $1 and account = $2 and state = 'open' and kind in ('dispute', 'inquiry', 'fraud_warning', 'reconcile', 'correction')
   and ` + hasNoRow + outbox.TasksClosed
)

// lastOfAccountSQL reads the last fact of the account's customers, even if a later parse has replaced it.
const lastOfAccountSQL = `
select ` + billing.FactColumns + ` from facts
 where mode = $1 and customer <> '' and customer = any(array(select customer from accounts where mode = $1 and id = $2
       union select customer from invoices where mode = $1 and account = $2
       union select customer from subscriptions where mode = $1 and account = $2))
 order by id desc limit 1`
