package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// A booked entry never changes. After a later parse of its event, or with other billing rules, the entry may have the
// wrong amount, tax or account. A task then opens, and a person can book the difference.

// TaskEntry is the kind of the task to decide about a booked entry that differs from the facts.
const TaskEntry = "entry_differs"

// ErrNoQuestion means that the entry of an object needs no decision.
var ErrNoQuestion = errors.New("its entry agrees with the facts")

type cash struct {
	account, currency string
	amount, tax       int64
}

// cashOf returns the amount to book under the ID of an object. It is zero for a kind of object that has no such entry.
func cashOf(o fold.Object) (c cash) {
	switch o := o.(type) {
	case *fold.Invoice:
		if o.IsPaid() || o.Closed() {
			c = cash{o.Account, o.Currency, o.Paid, fold.TaxOf(o.Paid, o.Due, o.Tax)}
		}
	case *fold.Checkout:
		if o.Sells() && o.Paid() {
			c = cash{o.Account, o.Currency, o.Amount, o.Tax}
		}
	case *fold.Payment:
		if o.Purchase == o.ID && o.Status == "succeeded" {
			c = cash{o.Account, o.Currency, o.Amount, 0}
		}
	case *fold.Refund:
		if o.Succeeded() && !o.Failed() && o.Within == "" {
			c = cash{o.Account, o.Currency, -o.Amount, -o.Tax}
		}
	}
	return c
}

const correctionPrefix = "finance-correction:"

// bookedOf returns the entries and corrections of objects, oldest first. It omits compensated entries, because nothing
// is booked for them any more.
func bookedOf(ctx context.Context, db schema.Querier, mode string, objects ...string) ([]fold.Correction, error) {
	return schema.Rows(ctx, db, "read what is booked of "+objects[0], pgx.RowToStructByPos[fold.Correction],
		bookedOfSQL, mode, objects)
}

func sumsOf(entries []fold.Correction) (sums []fold.Correction) {
	for _, e := range entries {
		same := func(c fold.Correction) bool { return c.Account == e.Account && c.Currency == e.Currency }
		i := slices.IndexFunc(sums, same)
		if i < 0 {
			sums = append(sums, e)
			continue
		}
		sums[i].Amount, sums[i].Tax = sums[i].Amount+e.Amount, sums[i].Tax+e.Tax
	}
	return sums
}

// difference returns the corrections that make the booked amounts equal to the facts, at most one per account and
// currency. The key of a correction contains only the suffix that the caller completes.
func difference(booked []fold.Correction, is cash) []fold.Correction {
	today := booked[0]
	today.Account, today.Currency = cmp.Or(is.account, today.Account), cmp.Or(is.currency, today.Currency)
	today.Amount, today.Tax = is.amount, is.tax
	all := []fold.Correction{today}
	for _, e := range booked {
		e.Amount, e.Tax = -e.Amount, -e.Tax
		all = append(all, e)
	}
	sums := sumsOf(all)
	for i := range sums {
		if sums[i].Key, sums[i].Corrects = "", booked[0].Key; i > 0 {
			sums[i].Key = ":" + sums[i].Account + ":" + sums[i].Currency
		}
	}
	return slices.DeleteFunc(sums, func(c fold.Correction) bool { return c.Amount == 0 && c.Tax == 0 })
}

// EntryDifferences returns, for each object, the corrections that make the booked amounts equal to the row of the
// object. The list is empty if they are equal already. An object without an entry is not in the result.
func EntryDifferences(ctx context.Context, db schema.Querier, mode string,
	objects []string) (map[string][]fold.Correction, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	entries, err := bookedOf(ctx, db, mode, objects...)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	rows, err := readObjects(ctx, db, cashSQL, mode, objects)
	if err != nil {
		return nil, err
	}
	is := map[string]cash{}
	for _, o := range rows.List() {
		is[o.Reference().ID] = cmp.Or(is[o.Reference().ID], cashOf(o))
	}
	booked, differences := map[string][]fold.Correction{}, map[string][]fold.Correction{}
	for _, e := range entries {
		booked[e.Object] = append(booked[e.Object], e)
	}
	for object, entries := range booked {
		differences[object] = difference(entries, is[object])
	}
	return differences, nil
}

// Corrections returns the corrections that pawl books if a person answers the open task about the entry of an object.
// It returns [ErrNoQuestion] if no such task is open, or if later facts have made it unnecessary.
func Corrections(ctx context.Context, db schema.Querier, mode, object string) (list []fold.Correction, err error) {
	key, err := one(ctx, db, "the question about "+object, pgx.RowTo[string], questionSQL, mode, TaskEntry, object)
	if err != nil {
		return nil, err
	}
	differences, err := EntryDifferences(ctx, db, mode, []string{object})
	if err != nil {
		return nil, err
	}
	list = differences[object]
	if key == "" || len(list) == 0 {
		return nil, ErrNoQuestion
	}
	for i := range list {
		list[i].Key = key + list[i].Key
	}
	return list, nil
}

// Correct completes the open task about the entry of an object and schedules the booking of the difference. It returns
// the corrections, or the same errors as [Corrections].
func Correct(ctx context.Context, tx pgx.Tx, mode, object string, at time.Time) (list []fold.Correction, err error) {
	if list, err = Corrections(ctx, tx, mode, object); err != nil {
		return nil, err
	}
	var accounts []string
	for _, c := range list {
		accounts = append(accounts, c.Account)
	}
	b := &pgx.Batch{}
	// lock the accounts in a fixed order, because another job may recompute the object at the same time
	for _, account := range fact.Unique(accounts) {
		b.Queue(holdAccountSQL, mode, account)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("correct the entry of %s: %w", object, err)
	}
	if list, err = Corrections(ctx, tx, mode, object); err != nil {
		return nil, err
	}
	cause, err := one(ctx, tx, "the cause of "+list[0].Corrects, pgx.RowToStructByPos[fact.Cause], causeOfEntrySQL,
		list[0].Corrects)
	if err != nil {
		return nil, err
	}
	b = &pgx.Batch{}
	for i, c := range list {
		list[i].At = at
		b.Queue(correctionSQL, c.Key, c.Corrects, mode, c.Account, c.ProviderAccount, c.Object, c.Invoice, c.Amount,
			c.Tax, c.Currency, at)
	}
	b.Queue(closeTaskSQL, mode, TaskEntry, object, fold.TaskDone)
	await(b, mode, object+" correction", list[0].Account, fold.Due{At: at, Kind: fold.DueBook, Object: object,
		Cause: cause})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("correct the entry of %s: %w", object, err)
	}
	return list, nil
}

const correctionColumns = `effect_key, corrects, account, provider_account, object, invoice, amount, tax, currency, decided_at`

const correctionsSQL = `
select ` + correctionColumns + ` from finance_corrections where object = $2 and mode = $1 order by decided_at, effect_key`

const correctionSQL = `
insert into finance_corrections (effect_key, corrects, mode, account, provider_account, object, invoice, amount, tax, currency, decided_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// bookedOfSQL reads corrections from the decisions of people, because a decided correction may not be booked yet. It
// reads the rows of each object separately ("offset 0"): Postgres may otherwise read all rows of a mode.
const bookedOfSQL = `
with entries as materialized (select e.* from (select distinct unnest($2::text[]) as id) o
     cross join lateral (select * from finance_entries where object = o.id and mode = $1 offset 0) e
     where e.kind in ('payment', 'reversal', 'refund', 'refund_reversal')),
e as (select * from entries where object not in (select object from entries where kind = 'reversal'))
select effect_key, '', account, provider_account, object, invoice, case kind when 'refund' then -amount else amount end,
       case kind when 'refund' then -tax else tax end, currency, created_at as at from e
union all select c.* from (select distinct object from e) o
 cross join lateral (select ` + correctionColumns + ` from finance_corrections where object = o.object and mode = $1 offset 0) c
 order by at, effect_key`

// movesWithSQL reads the objects that move to another account together with a subscription or an invoice.
const movesWithSQL = `
select 'invoice', state from invoices where mode = $1 and subscription = $2 and subscription <> ''
union all select kind, state from objects where mode = $1 and subscription = $2 and subscription <> '' and kind in ('payment', 'refund')
union all select kind, state from objects where mode = $1 and invoice = $2 and invoice <> '' and kind in ('payment', 'refund')`

const questionSQL = `select effect_key from tasks where mode = $1 and kind = $2 and object = $3 and state = (select 'open')`

const cashSQL = `
select found.* from unnest($2::text[]) of(id) cross join lateral (
    select 'invoice', state from invoices where mode = $1 and id = of.id
    union all select kind, state from objects where mode = $1 and id = of.id and kind in ('payment', 'refund', 'checkout')
    offset 0) found`

// askForEntrySQL opens a task about a booked entry that differs from the facts. If the object already has such a task,
// the statement opens it again only if it was cancelled, or if the title, which contains the amounts, has changed.
const askForEntrySQL = wasTask + `
insert into tasks as t (mode, kind, object, account, state, title, effect_key) values ($1, $2, $3, $4, 'open', $5, $6)
    on conflict (mode, kind, object) do update set state = 'open', account = excluded.account, title = excluded.title,
       effect_key = excluded.effect_key, taken_by = '', created_at = now(), updated_at = now()
 where t.state = 'cancelled' or t.title <> excluded.title` + taskWritten

const causeOfEntrySQL = `
select r.provider, r.account, r.event_id, r.id::text, r.received_at from effects e join receipts r on r.id = e.receipt_id where e.key = $1`
