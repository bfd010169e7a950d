package billing

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// schedule replaces the due rows of the objects. Steps that are due by now go into the change, and the event's own
// run does them. A row whose time has come stays until the clock's run takes it, since that one may have begun.
func (a *applying) schedule(b *pgx.Batch) {
	a.bookClaimed(b)
	before, now := related{a.known, a.before, a.policy}, related{a.known, a.now, a.policy}
	for _, o := range a.touched() {
		ref, was := o.ref(), a.before[keyOf(o)]
		if was != nil && was.ref().Account != ref.Account {
			b.Queue(moveDueSQL, a.subject.Mode, ref.ID, ref.Account)
		}
		// an object that only moves with its customer has the same due times, if it had any
		named := was != nil && was.ref().Account != ""
		if named && ref.Account == "" { // it is not ours any more
			a.replace(b, ref.ID, "", nil, true)
		}
		if ref.Account == "" || named && !a.folded[keyOf(o)] && !learnt(o, was) {
			continue
		}
		var had []Due
		if named {
			had = was.due(before, a.at)
		}
		due := o.due(now, a.at)
		if a.how != normal || !reflect.DeepEqual(had, due) {
			a.replace(b, ref.ID, ref.Account, due, had != nil || a.how != normal)
		}
		a.dueAlready(due)
	}
}

// dueAlready adds the steps to the change that were due before its facts came.
func (a *applying) dueAlready(due []Due) {
	i, s := a.change.After.Invoice, a.change.After.Subscription
	for _, d := range dueBy(a.at, due) {
		switch {
		case d.Why == DueDunning && i != nil && d.Object == i.ID:
			d.Invoice = i
		case d.Why == DueEnding && s != nil && d.Object == s.ID && s.EndsAt.After(a.at):
			d.Subscription = s
		default:
			continue
		}
		a.change.Due = append(a.change.Due, d)
	}
}

// bookClaimed has the clock book what a person has given to an account: no run is about such a fact.
func (a *applying) bookClaimed(b *pgx.Batch) {
	f := a.facts[0]
	if a.how != normal || f.Link == nil || f.Link.Of == "" {
		return
	}
	await(b, a.subject.Mode, f.Object, f.Link.Account, Due{At: a.at, Why: DueBook, Object: f.Object, Cause: causeOf(f)})
}

// replace makes the owner's rows exactly those of due in the future. A rebuild keeps past ones too: the clock may not
// have run them yet. some is set where the owner may have rows.
func (a *applying) replace(b *pgx.Batch, owner, account string, due []Due, some bool) {
	if some {
		stays := []string{}
		for _, d := range due {
			stays = append(stays, fmt.Sprintf("%s %s %d", d.Object, d.Why, d.At.UnixMicro()))
		}
		b.Queue(forgetDueSQL, a.subject.Mode, owner, stays)
	}
	for _, d := range due {
		if d.At.After(a.at) || a.how == inScratch {
			await(b, a.subject.Mode, owner, account, d)
		}
	}
}

func await(b *pgx.Batch, mode, owner, account string, d Due) {
	c := d.Cause
	b.Queue(awaitSQL, mode, owner, account, d.Object, d.Why, d.Step, d.At, c.Provider, c.ProviderAccount, c.EventID,
		c.ReceiptID, c.At)
}

// scheduleRelease says when a person is asked to release the workspace of an account: some time after what granted it
// last was over. Nobody is asked about an account that never had one, or that a person holds.
func (a *applying) scheduleRelease(b *pgx.Batch, before Target, after Access, last lapse) {
	if after.Account == "" || after.Target.Version == 0 {
		return
	}
	mode, row := a.subject.Mode, a.accounts[after.Account]
	later := last.at.After(orZero(row.OverAt))
	if later {
		b.Queue(lapsedSQL, mode, after.Account, last.at)
	}
	if after.Target.State == WorkspaceActive {
		if before.State == WorkspaceSuspended {
			a.replace(b, after.Account, after.Account, nil, true)
			b.Queue(closeTaskSQL, mode, TaskRelease, before.Kept(after.Account), TaskCancelled)
		}
		return
	}
	if row.Held || last.at.IsZero() || last.cause.At.Before(a.policy.EffectsFrom) || !later &&
		before.State == WorkspaceSuspended {
		return
	}
	since := latest(last.at, orZero(row.OverAt))
	due := []Due{{At: since.Add(a.policy.Keep), Why: DueKeep, Object: after.Account, Cause: last.cause}}
	a.replace(b, after.Account, after.Account, due, true)
	a.change.Due = append(a.change.Due, dueBy(a.at, due)...)
}

// scheduleAddOns says when a person is asked about subscriptions that add to a plan which the account does not have:
// some time after that has begun, since events of two subscriptions come in any order.
func (a *applying) scheduleAddOns(b *pgx.Batch, before Target, after Access, cause Cause) {
	if after.Account == "" || before.Version == after.Target.Version {
		return
	}
	var due []Due
	for _, g := range after.Grants {
		if g.Plan != "" || len(g.AddOns) == 0 || !g.Ends.IsZero() {
			continue
		}
		if after.Target.State == WorkspaceActive {
			b.Queue(closeTaskSQL, a.subject.Mode, TaskReconcile, g.Object, TaskCancelled)
		} else if !a.policy.EffectsFrom.After(cause.At) {
			due = append(due, Due{At: a.at.Add(a.policy.Settle), Why: DueAddOn, Object: g.Object, Cause: cause})
		}
	}
	a.replace(b, after.Account+" add-ons", after.Account, due, before.State == WorkspaceSuspended)
}

// ApplyDue takes the rows of an account that are due by a time, or by now if that is later. It brings access to the
// grants that still hold, and writes news to the outbox. It does so in tx, which also holds the effect's ledger row.
// The change says all that a plan needs. No fold changes, because no fact has come and no fold asks what time it is.
//
// It locks the account's row alone. The facts of its customers wait at that, too, before they write anything.
func ApplyDue(ctx context.Context, tx ledger.Tx, s Subject, account string, at time.Time, p Policy,
	effectKey string) (Change, error) {
	a := applying{tx: tx, policy: p, key: effectKey, at: at, subject: s}
	a.change.Subject, a.subject.OccurredAt = s, at
	if err := a.applyDue(ctx, account); err != nil {
		return Change{}, fmt.Errorf("apply what is due of account %s: %w", account, err)
	}
	return a.change, nil
}

func (a *applying) applyDue(ctx context.Context, account string) error {
	mode := a.subject.Mode
	b := &pgx.Batch{}
	a.accounts, a.granted = map[string]accountRow{}, map[string][]Grant{}
	a.readMeaning(b)
	a.lockAccount(b, account, "")
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	a.at = latest(a.at, a.accounts[account].Now.UTC())
	rows, err := a.tx.Query(ctx, takeDueSQL, mode, account, a.at)
	if err != nil {
		return err
	}
	taken, err := pgx.CollectRows(rows, scanDue)
	if err != nil {
		return err
	}
	var last lapse
	for _, d := range taken {
		switch d.Why {
		case DueEnd, DueGrace, DueOneOff:
			if d.At.After(last.at) {
				last = lapse{d.At, d.Cause}
			}
			if err := a.end(ctx, d); err != nil {
				return err
			}
		case DueEnding:
			if err := a.end(ctx, d); err != nil {
				return err
			}
		case DueDunning:
			if err := a.remind(ctx, d); err != nil {
				return err
			}
		case DueRenewal:
			s, err := known[Subscription](ctx, a.tx, subscriptionSQL, a.subject.Mode, d.Object)
			if err != nil {
				return err
			}
			if !s.RenewsBy.IsZero() && !s.RenewsBy.After(a.at) {
				a.change.Due = append(a.change.Due, d)
			}
		case DueBook:
			if err := a.book(ctx, d); err != nil {
				return err
			}
		case DueHold:
			if err := a.hold(ctx, d); err != nil {
				return err
			}
		case DueChanged, DueEnded, DueTaken:
			if err := letterAbout(ctx, a, d); err != nil {
				return err
			}
		default:
			a.change.Due = append(a.change.Due, d)
		}
	}
	a.change.Before.Access = a.accessOf(account, a.granted[account])
	a.change.After.Access = a.target(account, a.granted[account])
	b = &pgx.Batch{}
	a.writeAccess(b, a.change.Before.Access.Target, a.change.After.Access)
	a.scheduleRelease(b, a.change.Before.Access.Target, a.change.After.Access, last)
	a.scheduleAddOns(b, a.change.Before.Access.Target, a.change.After.Access, last.cause)
	if err := a.tell(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// end adds the end of a grace to the change, or that of a paid period where its subscription had ended before: no event
// tells of these.
func (a *applying) end(ctx context.Context, d Due) error {
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
func (a *applying) hold(ctx context.Context, d Due) error {
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
func (a *applying) book(ctx context.Context, d Due) error {
	a.before = objects{}
	rows, err := a.tx.Query(ctx, moneySQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	if err := a.collectObjects(rows); err != nil {
		return err
	}
	for _, o := range a.before.list() {
		d.Money.add(o)
	}
	if d.Money.Corrections, err = correctionsOf(ctx, a.tx, a.subject.Mode, d.Object); err != nil {
		return err
	}
	a.change.Due = append(a.change.Due, d)
	return nil
}

const moneySQL = `
select kind, state from objects where mode = $1 and id = $2 and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')
union all select kind, state from objects
 where mode = $1 and payment <> '' and kind in ('refund', 'dispute')
   and payment = any (array[$2, (select payment from objects where mode = $1 and id = $2 and kind = 'checkout')])`

// remind adds a step of an invoice's dunning to the change, where it is still the newest.
func (a *applying) remind(ctx context.Context, d Due) error {
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

func scanDue(row pgx.CollectableRow) (Due, error) {
	var d Due
	err := row.Scan(&d.Object, &d.Why, &d.Step, &d.At, &d.Cause.Provider, &d.Cause.ProviderAccount, &d.Cause.EventID,
		&d.Cause.ReceiptID, &d.Cause.At)
	d.At, d.Cause.At = d.At.UTC(), d.Cause.At.UTC()
	return d, err
}
