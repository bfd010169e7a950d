package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// An entry of finance that is booked stays as it is. A later reading of its event, or another meaning, may say that it
// should have been of another amount, with another tax in it, or of another account. A person is then asked, once, and
// can have the difference booked.

// TaskEntry is to decide about an entry that is booked otherwise than the facts say.
const TaskEntry = "entry_differs"

// Anew says for whom an account is folded anew: a job, whose ID stands in the keys of corrections.
type Anew struct {
	Job string
	// Money writes an amount for people.
	Money func(amount int64, currency string) string
	// Letters are those that the clock sends where the fold calls for them: none by itself.
	Letters []Why
}

// Correction is a difference that a person has had booked.
type Correction struct {
	// Key is that of the correction's effect, Corrects that of the entry which it corrects.
	Key, Corrects string
	Account       string
	// ProviderAccount, Object and Invoice are those of the entry.
	ProviderAccount, Object, Invoice string
	// Amount and Tax are in minor units of Currency, negative for what was booked too much.
	Amount, Tax int64
	Currency    string
	At          time.Time
}

// ErrNoQuestion means that nobody is asked about an object's entry.
var ErrNoQuestion = errors.New("its entry is as the facts say")

// cash is what an object has brought in, as its facts say.
type cash struct {
	account, currency string
	amount, tax       int64
}

// cashOf returns what is booked of an object under its own ID; zero for a kind that is booked otherwise.
func cashOf(o Object) (c cash) {
	switch o := o.(type) {
	case *Invoice:
		if o.paid() || o.Closed() {
			c = cash{o.Account, o.Currency, o.Paid, TaxOf(o.Paid, o.Due, o.Tax)}
		}
	case *Checkout:
		if o.Sells() && o.Paid() {
			c = cash{o.Account, o.Currency, o.Amount, o.Tax}
		}
	case *Payment:
		if o.Purchase == o.ID && o.Status == "succeeded" {
			c = cash{o.Account, o.Currency, o.Amount, 0}
		}
	case *Refund:
		if o.Succeeded() && !o.Failed() && o.Within == "" {
			c = cash{o.Account, o.Currency, -o.Amount, -o.Tax}
		}
	}
	return c
}

// readAnew keeps what was told of an invoice's payments: the difference that a later reading makes is no payment.
func (i *Invoice) readAnew(before *Invoice) {
	if before == nil || len(before.PaidSums) == 0 || i.Paid == before.Paid {
		return
	}
	i.PaidSums = slices.Clone(before.PaidSums)
	if last := len(i.PaidSums) - 1; last > 0 {
		i.Misread = i.Paid - i.PaidSums[last]
	} else {
		i.PaidSums[0] = i.Paid // its key is the invoice's, whatever the sum
	}
}

// askFor asks about the objects whose cash a fold has changed, and about those that move with one to another account.
// It asks nothing where n is nil: an event says what has happened since, and changes no entry.
func (n *Anew) askFor(ctx context.Context, a *applying, b *pgx.Batch) error {
	if n == nil {
		return nil
	}
	for _, o := range a.now.list() {
		is, was := cashOf(o), a.before[keyOf(o)]
		if was == nil || is != cashOf(was) {
			if err := n.ask(ctx, a.tx, b, a.subject.Mode, o.ref().ID, is); err != nil {
				return err
			}
		}
		carries := o.kind() == kindSubscription || o.kind() == kindInvoice
		if !carries || was == nil || was.ref().Account == o.ref().Account {
			continue
		}
		moved, err := readObjects(ctx, a.tx, movesWithSQL, a.subject.Mode, o.ref().ID)
		if err != nil {
			return err
		}
		for _, with := range moved.list() {
			is := cashOf(with)
			is.account = o.ref().Account
			if err := n.ask(ctx, a.tx, b, a.subject.Mode, with.ref().ID, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask asks about an object if it is booked otherwise. A question that the facts have answered meanwhile is over, and a
// person who has let the same difference stand is not asked again.
func (n *Anew) ask(ctx context.Context, db schema.Querier, b *pgx.Batch, mode, object string, is cash) error {
	booked, err := bookedOf(ctx, db, mode, object)
	if err != nil || len(booked) == 0 {
		return err
	}
	differs := difference(booked, is)
	if len(differs) == 0 {
		b.Queue(closeTaskSQL, mode, TaskEntry, object, TaskCancelled)
		return nil
	}
	says := func(amount, tax int64, currency string) string {
		if slices.ContainsFunc(differs, func(c Correction) bool { return c.Amount != 0 }) {
			return n.Money(amount, currency)
		}
		return n.Money(amount, currency) + ", " + n.Money(tax, currency) + " of it tax,"
	}
	var has []string
	for _, sum := range sumsOf(booked) {
		has = append(has, says(sum.Amount, sum.Tax, sum.Currency)+" under "+sum.Account)
	}
	comes := says(is.amount, is.tax, cmp.Or(is.currency, booked[0].Currency))
	if is.account != "" {
		comes += " under " + is.account
	}
	title := fmt.Sprintf("%s is booked with %s, and comes to %s", object, strings.Join(has, " and "), comes) +
		fmt.Sprintf(": pawl money correct %s books the difference, pawl tasks close %[1]s lets it stand", object)
	_, of, _ := strings.Cut(booked[0].Key, ":")
	b.Queue(askForEntrySQL, mode, TaskEntry, object, booked[0].Account, title, correctionPrefix+of+":"+n.Job)
	return nil
}

// correctionPrefix begins the keys of corrections.
const correctionPrefix = "finance-correction:"

// bookedOf returns what is booked of objects, and what a person has had corrected: the oldest first. What was taken
// back is settled: nothing then.
func bookedOf(ctx context.Context, db schema.Querier, mode string, objects ...string) ([]Correction, error) {
	return schema.Rows(ctx, db, "read what is booked of "+objects[0], pgx.RowToStructByPos[Correction], bookedOfSQL,
		mode,
		objects)
}

// sumsOf adds entries up by account and currency, in their order.
func sumsOf(entries []Correction) (sums []Correction) {
	for _, e := range entries {
		same := func(c Correction) bool { return c.Account == e.Account && c.Currency == e.Currency }
		i := slices.IndexFunc(sums, same)
		if i < 0 {
			sums = append(sums, e)
			continue
		}
		sums[i].Amount, sums[i].Tax = sums[i].Amount+e.Amount, sums[i].Tax+e.Tax
	}
	return sums
}

// difference returns what is to be booked so that all of it comes to what the facts say: at most one correction for
// each account and currency. The key is the end of it alone, which is empty for those of the facts.
func difference(booked []Correction, is cash) []Correction {
	today := booked[0]
	today.Account, today.Currency = cmp.Or(is.account, today.Account), cmp.Or(is.currency, today.Currency)
	today.Amount, today.Tax = is.amount, is.tax
	all := []Correction{today}
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
	return slices.DeleteFunc(sums, func(c Correction) bool { return c.Amount == 0 && c.Tax == 0 })
}

// Corrections returns what answers the open question about an object's entry, and the keys that it would have. Its
// error is [ErrNoQuestion] where nobody is asked, or the facts have answered meanwhile.
func Corrections(ctx context.Context, db schema.Querier, mode, object string) (list []Correction, err error) {
	key, err := one(ctx, db, "the question about "+object, pgx.RowTo[string], questionSQL, mode, TaskEntry, object)
	if err != nil {
		return nil, err
	}
	known, err := readObjects(ctx, db, cashSQL, mode, []string{object})
	if err != nil {
		return nil, err
	}
	booked, err := bookedOf(ctx, db, mode, object)
	if err != nil {
		return nil, err
	}
	is := cash{}
	for _, o := range known {
		is = cmp.Or(is, cashOf(o))
	}
	if len(booked) > 0 {
		list = difference(booked, is)
	}
	if key == "" || len(list) == 0 {
		return nil, ErrNoQuestion
	}
	for i := range list {
		list[i].Key = key + list[i].Key
	}
	return list, nil
}

// Correct answers the open question about an object's entry: the difference is booked, by a run of the clock. It
// returns that. Its error is one of [Corrections]'s.
func Correct(ctx context.Context, tx pgx.Tx, mode, object string, at time.Time) (list []Correction, err error) {
	if list, err = Corrections(ctx, tx, mode, object); err != nil {
		return nil, err
	}
	var accounts []string
	for _, c := range list {
		accounts = append(accounts, c.Account)
	}
	b := &pgx.Batch{}
	for _, account := range set(accounts) { // who folds it anew comes before, or after; in one order for all
		b.Queue(holdAccountSQL, mode, account)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("correct what is booked of %s: %w", object, err)
	}
	if list, err = Corrections(ctx, tx, mode, object); err != nil {
		return nil, err
	}
	cause, err := one(ctx, tx, "the cause of "+list[0].Corrects, pgx.RowToStructByPos[Cause], causeOfEntrySQL,
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
	b.Queue(closeTaskSQL, mode, TaskEntry, object, TaskDone)
	await(b, mode, object+" correction", list[0].Account, Due{At: at, Why: DueBook, Object: object, Cause: cause})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("correct what is booked of %s: %w", object, err)
	}
	return list, nil
}

const correctionColumns = `effect_key, corrects, account, provider_account, object, invoice, amount, tax, currency, decided_at`

const correctionsSQL = `
select ` + correctionColumns + ` from finance_corrections where object = $2 and mode = $1 order by decided_at, effect_key`

const correctionSQL = `
insert into finance_corrections (effect_key, corrects, mode, account, provider_account, object, invoice, amount, tax, currency, decided_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// bookedOfSQL takes corrections from what was decided: they may not be booked yet.
const bookedOfSQL = `
with e as materialized (
    select * from finance_entries where object = any($2) and mode = $1 and kind in ('payment', 'reversal', 'refund', 'refund_reversal'))
select effect_key, '', account, provider_account, object, invoice, case kind when 'refund' then -amount else amount end,
       case kind when 'refund' then -tax else tax end, currency, created_at as at
  from e where object not in (select object from e where kind = 'reversal')
union all
select ` + correctionColumns + ` as at
  from finance_corrections where object in (select object from e) and object not in (select object from e where kind = 'reversal') and mode = $1
 order by at, effect_key`

// movesWithSQL takes what moves to another account with a subscription, or with an invoice.
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

// askForEntrySQL leaves a question that a person has answered, as long as it is the same.
const askForEntrySQL = `
insert into tasks as t (mode, kind, object, account, state, title, effect_key) values ($1, $2, $3, $4, 'open', $5, $6)
    on conflict (mode, kind, object) do update set state = 'open', account = excluded.account, title = excluded.title,
       effect_key = excluded.effect_key, taken_by = '', created_at = now(), updated_at = now()
 where t.state = 'cancelled' or t.title <> excluded.title`

const causeOfEntrySQL = `
select r.provider, r.account, r.event_id, r.id::text, r.received_at from effects e join receipts r on r.id = e.receipt_id where e.key = $1`
