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
)

// Recompute folds stored facts again: after a row was changed by hand, after a change of the billing rules, or after a
// payload was parsed again. It writes the rows that differ, publishes the changes, and schedules the update of the
// workspace. It sends nothing itself and runs no effect that happens once.
//
// Package rebuild selects what to recompute.
type Recompute struct {
	// Cause is the cause of the published changes.
	Cause Cause
	// Policy applies if no billing rules are active, and in a scratch recomputation.
	Policy fact.Policy
	// At decides which grants have ended. The zero time means the clock of the database, read under the account's lock.
	At time.Time
	// Scratch is set if temporary tables hide the tables that Apply writes. It takes no locks and ignores the active
	// billing rules.
	Scratch bool
	// Job is the ID of the job that recomputes. It is a part of the keys of corrections. It is empty for a repair of
	// rows: a repair opens no task about a booked entry and schedules no email.
	Job string
	// Money formats an amount of minor units for people. A job needs it.
	Money func(amount int64, currency string) string
	// Letters lists the kinds of emails that the clock sends if the change of an object requires them.
	Letters []fold.Why
}

// Cause names a reason to recompute. Published changes contain it.
type Cause string

// The causes: rows that differ from the facts, other billing rules, another parser.
const (
	CauseRows   Cause = "rebuild"
	CauseRules  Cause = "meaning"
	CauseParser Cause = "reread"
)

// Apply folds the object of f from all of its facts, in tx. f is stored already, or is appended. After an error tx must
// be rolled back.
func (r Recompute) Apply(ctx context.Context, tx ledger.Tx, f fact.Fact) error {
	a := r.applying(tx)
	a.facts = []fact.Fact{f}
	_, err := a.run(ctx)
	return err
}

// Account folds the access of an account from its grants, in tx, if remove has deleted some of them. remove returns any
// fact about the account, which names the receipt of the published change; nil means that no grant was deleted. Like
// [Apply], it locks the billing rules first, then the row of the account; remove runs under both locks. After an error
// tx must be rolled back.
func (r Recompute) Account(ctx context.Context, tx ledger.Tx, of Scope, remove func() (*fact.Fact, error)) error {
	a := r.applying(tx)
	a.subject.Mode, a.holds = of.Mode, of.Account
	b := &pgx.Batch{}
	a.readMeaning(b)
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

// askForEntries opens tasks about the objects with changed cash, and about objects that move with them to another
// account. It does nothing without a job, because an event never changes a booked entry.
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

// Removed adds statements to b that open a task about the booked entry of an object without facts after its row is
// deleted. It adds none if nothing is booked, or without a job.
func (r Recompute) Removed(ctx context.Context, db schema.Querier, b *pgx.Batch, mode, object string) error {
	if r.Job == "" {
		return nil
	}
	return r.askForEntry(ctx, db, b, mode, object, cash{})
}

// askForEntry opens a task about an object if its entry differs. It cancels the task if the facts no longer differ. It
// does not repeat a question after a person has decided to keep the same difference.
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
			return r.Money(amount, currency)
		}
		return r.Money(amount, currency) + ", " + r.Money(tax, currency) + " of it tax,"
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
	b.Queue(askForEntrySQL, mode, TaskEntry, object, booked[0].Account, title, correctionPrefix+of+":"+r.Job)
	return nil
}

// sendLetters schedules the emails of the given kinds that the change requires.
func sendLetters(a *applying, b *pgx.Batch, kinds []fold.Why) {
	before, after := a.change.Before.Access.Target, a.change.After.Access
	lost := before.State == fold.WorkspaceActive && after.Target.State == fold.WorkspaceSuspended
	for _, o := range a.touched() {
		ref := o.Reference()
		if ref.Account == "" || ref.Account != after.Account {
			continue
		}
		for _, why := range fold.LettersOf(a.before[fold.KeyOf(o)], o, lost) {
			if slices.Contains(kinds, why) {
				await(b, a.subject.Mode, ref.ID+" letters", ref.Account,
					fold.Due{At: a.at, Why: why, Object: ref.ID, Cause: fact.CauseOf(a.facts[0])})
			}
		}
	}
}

const holdAccountSQL = `select from accounts where mode = $1 and id = $2 for update`
