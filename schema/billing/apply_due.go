package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/ledger"
)

// ApplyDue takes the rows of an account that are due by a time, or by now if that is later. It brings access to the
// grants that still hold, and writes news to the outbox. It does so in tx, which also holds the effect's ledger row.
// The change says all that a plan needs. No fold changes, because no fact has come and no fold asks what time it is.
//
// It locks the account's row alone. The facts of its customers wait at that, too, before they write anything.
func ApplyDue(ctx context.Context, tx ledger.Tx, s Subject, account string, at time.Time, p Policy,
	effectKey string) (Change, error) {
	a := applyingDue{applying: applying{tx: tx, policy: p, key: effectKey, at: at, subject: s}}
	a.change.Subject, a.subject.OccurredAt = s, at
	if err := a.applyDue(ctx, account); err != nil {
		return Change{}, fmt.Errorf("apply what is due of account %s: %w", account, err)
	}
	return a.change, nil
}

// applyingDue is one call of ApplyDue. last is when what granted something last was over.
type applyingDue struct {
	applying
	last lapse
}

func (a *applyingDue) applyDue(ctx context.Context, account string) error {
	mode := a.subject.Mode
	b := &pgx.Batch{}
	a.accounts, a.granted = map[string]accountRow{}, map[string][]Grant{}
	a.readMeaning(b)
	a.lockAccount(b, account, "")
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	a.at = latest(a.at, a.accounts[account].Now.UTC())
	taken, err := schema.Rows(ctx, a.tx, "read what is due", scanDue, takeDueSQL, mode, account, a.at)
	if err != nil {
		return err
	}
	for _, d := range taken {
		if err := a.take(ctx, d); err != nil {
			return err
		}
	}
	a.change.Before.Access = a.accessOf(account, a.granted[account])
	a.change.After.Access = a.target(account, a.granted[account])
	b = &pgx.Batch{}
	a.writeAccounts(b, a.last, a.last.cause)
	if err := a.tell(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// take adds what is due to the change, unless it is not so any more.
func (a *applyingDue) take(ctx context.Context, d Due) error {
	switch d.Why {
	case DueEnd, DueGrace, DueOneOff, DueEnding:
		return a.end(ctx, d)
	case DueDunning:
		return a.remind(ctx, d)
	case DueRenewal:
		s, err := known[Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
		if err != nil || s.RenewsBy.IsZero() || s.RenewsBy.After(a.at) {
			return err
		}
	case DueBook:
		return a.book(ctx, d)
	case DueHold:
		return a.hold(ctx, d)
	case DueChanged, DueEnded, DueTaken:
		return a.letter(ctx, d)
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}

// end adds the end of a grace to the change, or that of a paid period where its subscription had ended before: no event
// tells of these. Nobody is told of the end of what was bought once.
func (a *applyingDue) end(ctx context.Context, d Due) error {
	if d.Why != DueEnding && d.At.After(a.last.at) {
		a.last = lapse{d.At, d.Cause}
	}
	if d.Why == DueOneOff {
		return nil
	}
	s, err := known[Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
	if err == nil && (s.Ended() || d.Why != DueEnd) {
		d.Subscription = &s
		a.change.Due = append(a.change.Due, d)
	}
	return err
}

// hold adds a hold to the change, with the highest thing that it holds back.
func (a *applyingDue) hold(ctx context.Context, d Due) error {
	grants := a.granted[d.Object]
	sortGrants(grants, a.policy)
	if len(grants) > 0 {
		s, err := known[Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, grants[0].Object)
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

// book adds the money to the change: the object, and what has moved of it where it is a payment or a checkout session.
func (a *applyingDue) book(ctx context.Context, d Due) error {
	money, err := readObjects(ctx, a.tx, moneySQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	for _, o := range money.list() {
		d.Money.add(o)
	}
	d.Money.Corrections, err = schema.Rows(ctx, a.tx, "read the corrections of "+d.Object,
		pgx.RowToStructByPos[Correction],
		correctionsSQL, a.subject.Mode, d.Object)
	a.change.Due = append(a.change.Due, d)
	return err
}

const moneySQL = `
select kind, state from objects where mode = $1 and id = $2 and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')
union all select kind, state from objects
 where mode = $1 and payment <> '' and kind in ('refund', 'dispute')
   and payment = any (array[$2, (select payment from objects where mode = $1 and id = $2 and kind = 'checkout')])`

// remind adds a step of an invoice's dunning to the change, where it is still the newest.
func (a *applyingDue) remind(ctx context.Context, d Due) error {
	i, err := known[Invoice](ctx, a.tx, invoiceSQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	for _, now := range dueBy(a.at, i.dunning(a.policy)) {
		if now.Step == d.Step {
			now.Invoice = &i
			a.change.Due = append(a.change.Due, now)
		}
	}
	return nil
}

// letter adds a letter to the change, with what it is about.
func (a *applyingDue) letter(ctx context.Context, d Due) error {
	s, err := known[Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
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
		d.Invoice, d.Money.Checkout = find[*Invoice](bought, d.Object), find[*Checkout](bought, d.Object)
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}
