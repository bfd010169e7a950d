package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// ApplyDue executes the scheduled actions of an account that are due at the given time, or now if that is later. It
// removes the grants that have ended from the access of the account, and publishes events in the outbox. It does so
// in tx, which also contains the ledger row of the effect. The returned change contains everything that is needed to
// plan effects.
//
// ApplyDue does not compute objects from facts: there are no new facts, and the state of an object does not depend on
// the current time. Refunds that only charges report are the exception, because [Apply] first adds their facts.
//
// ApplyDue locks only the row of the account. Transactions with facts of the account's customers wait for this lock
// before they write anything.
func ApplyDue(ctx context.Context, tx ledger.Tx, s fact.Subject, account string, at time.Time, p fact.Policy,
	effectKey string) (fold.Change, error) {
	a := applyingDue{applying: applying{tx: tx, policy: p, key: effectKey, at: at, subject: s}}
	a.change.Subject, a.subject.OccurredAt = s, at
	if err := a.applyDue(ctx, account); err != nil {
		return fold.Change{}, fmt.Errorf("apply the scheduled actions of account %s: %w", account, err)
	}
	return a.change, nil
}

// applyingDue holds the state of one call of ApplyDue. last is when the last grant ended.
type applyingDue struct {
	applying
	last fold.Lapse
}

func (a *applyingDue) applyDue(ctx context.Context, account string) error {
	mode := a.subject.Mode
	if err := a.tellRefunds(ctx, account); err != nil {
		return err
	}
	b := &pgx.Batch{}
	a.accounts, a.granted = map[string]accountRow{}, map[string][]fold.Grant{}
	a.readRules(b)
	b.Queue(effectsFromSQL, mode).QueryRow(func(row pgx.Row) error { return row.Scan(&a.policy.EffectsFrom) })
	a.lockAccount(b, account, "")
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	a.at = fold.Latest(a.at, a.accounts[account].Now.UTC())
	taken, err := schema.Rows(ctx, a.tx, "read the scheduled actions", scanDue, takeDueSQL, mode, account, a.at)
	if err != nil {
		return err
	}
	for _, d := range taken {
		if err := a.take(ctx, d); err != nil {
			return err
		}
	}
	a.change.Silent = len(taken) > 0 && !slices.ContainsFunc(taken, a.hasEffects)
	a.change.Due = slices.DeleteFunc(a.change.Due, func(d fold.Due) bool { return !a.hasEffects(d) })
	a.change.Before.Access = a.accessOf(account, a.granted[account])
	a.change.After.Access = a.target(account, a.granted[account])
	b = &pgx.Batch{}
	a.writeAccounts(b, a.last, a.last.Cause)
	if err := a.tell(b); err != nil {
		return err
	}
	if err := a.withholdDue(b, account, taken); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// take adds a scheduled action to the change if it still applies.
func (a *applyingDue) take(ctx context.Context, d fold.Due) error {
	switch d.Kind {
	case fold.DueEnd, fold.DueGrace, fold.DueOneOff, fold.DueEnding:
		return a.end(ctx, d)
	case fold.DueDunning:
		return a.remind(ctx, d)
	case fold.DueRenewal:
		s, err := known[fold.Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
		if err != nil || s.RenewsBy.IsZero() || s.RenewsBy.After(a.at) {
			return err
		}
	case fold.DueBook:
		return a.book(ctx, d)
	case fold.DueHold:
		return a.hold(ctx, d)
	case fold.DueChanged:
		return a.letter(ctx, d)
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}

// end adds the end of a grant to the change: the end of a grace period, or of a paid period after the subscription
// ended or the money of a later purchase was returned. No event of the provider reports these ends. The end of a
// one-time purchase sends no e-mail.
func (a *applyingDue) end(ctx context.Context, d fold.Due) error {
	if d.Kind != fold.DueEnding && d.At.After(a.last.At) {
		a.last = fold.Lapse{At: d.At, Cause: d.Cause}
	}
	if d.Kind == fold.DueOneOff {
		return nil
	}
	s, err := known[fold.Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
	if err == nil && (s.Ended() || d.Kind != fold.DueEnd || s.CutShort != "") {
		d.Subscription = &s
		a.change.Due = append(a.change.Due, d)
	}
	return err
}

// hold adds a hold to the change. It also adds the affected subscription with the highest plan.
func (a *applyingDue) hold(ctx context.Context, d fold.Due) error {
	grants := a.granted[d.Object]
	fold.SortGrants(grants, a.policy)
	if len(grants) > 0 {
		s, err := known[fold.Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, grants[0].Object)
		if err != nil {
			return err
		}
		if s.ID != "" {
			d.Subscription = &s
		}
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}

// book adds a money object to the change. For a payment or a checkout session it also adds the refunds and disputes.
func (a *applyingDue) book(ctx context.Context, d fold.Due) error {
	money, err := readObjects(ctx, a.tx, moneySQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	for _, o := range money.List() {
		d.Money.Add(o)
	}
	d.Money.Corrections, err = schema.Rows(ctx, a.tx, "read the corrections of "+d.Object,
		pgx.RowToStructByPos[fold.Correction],
		correctionsSQL, a.subject.Mode, d.Object)
	a.change.Due = append(a.change.Due, d)
	return err
}

const moneySQL = `
select kind, state from objects where mode = $1 and id = $2 and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')
union all select kind, state from objects
 where mode = $1 and payment <> '' and kind in ('refund', 'dispute')
   and payment = any (array[$2, (select payment from objects where mode = $1 and id = $2 and kind = 'checkout')])`

// remind adds the reminder of an invoice to the change if no newer reminder is due.
func (a *applyingDue) remind(ctx context.Context, d fold.Due) error {
	i, err := known[fold.Invoice](ctx, a.tx, invoiceSQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	for _, now := range fold.DueBy(a.at, i.Dunning(a.policy)) {
		if now.Step == d.Step {
			now.Invoice = &i
			a.change.Due = append(a.change.Due, now)
		}
	}
	return nil
}

func (a *applyingDue) letter(ctx context.Context, d fold.Due) error {
	s, err := known[fold.Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	if s.ID != "" {
		d.Subscription = &s
	} else {
		bought, err := readObjects(ctx, a.tx, cashSQL, a.subject.Mode, []string{d.Object})
		if err != nil {
			return err
		}
		d.Invoice, d.Money.Checkout = fold.Find[*fold.Invoice](bought, d.Object),
			fold.Find[*fold.Checkout](bought, d.Object)
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}
