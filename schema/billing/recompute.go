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
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/money"
)

// Recompute computes objects again from their stored facts: after a row was changed by hand, after a change of the
// billing rules, or after a payload was parsed again. It writes the rows that differ, publishes the changes, and
// schedules the update of the workspace. It sends no e-mails, and runs no effect that must happen only once.
//
// Package rebuild selects the accounts and facts to recompute.
type Recompute struct {
	// Cause is the reason that the published changes contain.
	Cause Cause
	// Policy holds the billing rules to use if Scratch is set. Otherwise the active rules are used, or Policy if no
	// rules are active.
	Policy fact.Policy
	// At is the time at which grants are compared with their end. The zero time means the clock of the database, read
	// under the account's lock.
	At time.Time
	// Scratch is set for a preview: temporary tables hide the tables that Apply writes. No locks are taken, and the
	// active billing rules are ignored.
	Scratch bool
	// Job is the ID of the job that recomputes. The keys of corrections contain it. It is empty for a repair of rows,
	// which opens no task about booked entries.
	Job string
}

// Cause is a reason to recompute, as published changes contain it.
type Cause string

// The reasons to recompute: rows that differ from the facts, other billing rules, another parse of payloads.
const (
	CauseRows   Cause = "rebuild"
	CauseRules  Cause = "rules"
	CauseParser Cause = "payloads"
)

// Apply recomputes the object of f from all of its facts, in tx. It appends f unless f is already stored. If Apply
// fails, tx must be rolled back.
func (r Recompute) Apply(ctx context.Context, tx ledger.Tx, f fact.Fact) error {
	a := r.applying(tx)
	a.facts = []fact.Fact{f}
	_, err := a.run(ctx)
	return err
}

// Account recomputes the access of an account in tx after remove has deleted grants. remove returns a fact about the
// account, or nil if it deleted no grant; the receipt of that fact becomes the receipt of the published change. Like
// [Apply], Account locks the billing rules first and then the row of the account. remove runs under both locks. If
// Account fails, tx must be rolled back.
func (r Recompute) Account(ctx context.Context, tx ledger.Tx, of Scope, remove func() (*fact.Fact, error)) error {
	a := r.applying(tx)
	a.subject.Mode, a.holds = of.Mode, of.Account
	b := &pgx.Batch{}
	a.readRules(b)
	b.Queue(holdAccountSQL, of.Mode, of.Account)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	last, err := remove()
	if err != nil {
		return err
	}
	b = &pgx.Batch{}
	b.Queue(askForPricesSQL, of.Mode, of.Account, TaskPrice, a.key)
	if err := tx.SendBatch(ctx, b).Close(); err != nil || last == nil {
		return err
	}
	a.facts, a.subject = []fact.Fact{*last}, last.Subject
	if err := a.access(ctx); err != nil {
		return err
	}
	return a.write(ctx)
}

func (r Recompute) applying(tx ledger.Tx) *applying {
	a := &applying{tx: tx, policy: r.Policy, key: string(r.Cause), at: r.At, how: repairing, again: r}
	if r.Scratch {
		a.how = inScratch
	}
	return a
}

// askForEntries opens tasks about the booked entries of objects with a changed amount, and of objects that move to
// another account with them. It does nothing if Job is empty, because an event never changes a booked entry.
func (a *applying) askForEntries(ctx context.Context, b *pgx.Batch) error {
	if a.again.Job == "" {
		return nil
	}
	for _, o := range a.now.List() {
		is, was := cashOf(o), a.before[fold.KeyOf(o)]
		if was == nil || is != cashOf(was) {
			if err := a.again.askForEntry(ctx, a.tx, b, a.subject.Mode, o.Reference().ID, is); err != nil {
				return err
			}
		}
		carries := o.Kind() == fold.KindSubscription || o.Kind() == fold.KindInvoice
		if !carries || was == nil || was.Reference().Account == o.Reference().Account {
			continue
		}
		moved, err := readObjects(ctx, a.tx, movesWithSQL, a.subject.Mode, o.Reference().ID)
		if err != nil {
			return err
		}
		for _, with := range moved.List() {
			is := cashOf(with)
			is.account = o.Reference().Account
			if err := a.again.askForEntry(ctx, a.tx, b, a.subject.Mode, with.Reference().ID, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// Removed queues statements in b that open a task about the booked entry of an object that has no facts, after its row
// is deleted. It queues nothing if the object has no entry, or if Job is empty.
func (r Recompute) Removed(ctx context.Context, db schema.Querier, b *pgx.Batch, mode, object string) error {
	if r.Job == "" {
		return nil
	}
	return r.askForEntry(ctx, db, b, mode, object, cash{})
}

// askForEntry opens a task about the entry of an object if the entry differs from the facts, and cancels the task if it
// does not. It does not open the task again if a person has decided to keep the same difference.
func (r Recompute) askForEntry(ctx context.Context, db schema.Querier, b *pgx.Batch, mode, object string,
	is cash) error {
	booked, err := bookedOf(ctx, db, mode, object)
	if err != nil || len(booked) == 0 {
		return err
	}
	differs := difference(booked, is)
	if len(differs) == 0 {
		b.Queue(closeTaskSQL, mode, TaskEntry, object, fold.TaskCancelled)
		return nil
	}
	says := func(amount, tax int64, currency string) string {
		if slices.ContainsFunc(differs, func(c fold.Correction) bool { return c.Amount != 0 }) {
			return money.Format(amount, currency)
		}
		return money.Format(amount, currency) + ", " + money.Format(tax, currency) + " of it tax,"
	}
	var has []string
	for _, sum := range sumsOf(booked) {
		has = append(has, says(sum.Amount, sum.Tax, sum.Currency)+" under "+sum.Account)
	}
	comes := says(is.amount, is.tax, cmp.Or(is.currency, booked[0].Currency))
	if is.account != "" {
		comes += " under " + is.account
	}
	title := fmt.Sprintf("%s is booked with %s, but the facts give %s", object, strings.Join(has, " and "), comes) +
		fmt.Sprintf(": pawl entries correct %s books the difference, pawl tasks close %[1]s keeps the entry", object)
	_, of, _ := strings.Cut(booked[0].Key, ":")
	b.Queue(askForEntrySQL, mode, TaskEntry, object, booked[0].Account, title, correctionPrefix+of+":"+r.Job)
	return nil
}

const holdAccountSQL = `select from accounts where mode = $1 and id = $2 for update`
