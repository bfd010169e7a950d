package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// The rows of what is due, and what applies them.

// schedule writes the rows of what the clock does about the objects that are written, in place of those that were there.
// What is due by now is in the change: the event's own run does it. A row whose time has come stays until the clock's run
// takes it, since that one may have begun.
func (a *applying) schedule(b *pgx.Batch) {
	account := a.change.After.Access.Account
	if account == "" {
		return
	}
	for n, s := range a.subscriptions {
		if n > 0 || a.change.After.Subscription == nil { // it moves with its customer, and is what it was
			b.Queue(moveDueSQL, a.subject.Mode, s.ID, s.Account)
			continue
		}
		if held := a.held.subscription; held != nil && held.Account != account {
			b.Queue(moveDueSQL, a.subject.Mode, s.ID, account)
		}
		all := dueOf(s, a.billed, a.policy, a.at)
		a.replace(b, s.ID, account, all)
		for _, d := range come(all, a.at) {
			if d.Why == DueDunning && d.Object == a.invoice {
				d.Invoice = a.change.After.Invoice
				a.change.Due = append(a.change.Due, d)
			}
		}
		if s.Unsettled == (Cause{}) && a.held.subscription != nil && a.held.subscription.Unsettled != (Cause{}) {
			b.Queue(closeTaskSQL, a.subject.Mode, TaskReconcile, s.ID, TaskCancelled)
		}
	}
	a.scheduleSessions(b)
	for _, i := range a.invoices {
		if i.Subscription != "" {
			continue
		}
		b.Queue(moveDueSQL, a.subject.Mode, i.ID, i.Account)
		all := i.due(a.policy)
		a.replace(b, i.ID, i.Account, all)
		for _, d := range come(all, a.at) {
			if d.Why == DueDunning && i.ID == a.invoice {
				d.Invoice = &i
				a.change.Due = append(a.change.Due, d)
			}
		}
	}
}

// scheduleSessions writes when what was bought at the checkout ends.
func (a *applying) scheduleSessions(b *pgx.Batch) {
	for _, c := range a.ownSessions() {
		if c.Account == "" {
			continue
		}
		b.Queue(moveDueSQL, a.subject.Mode, c.ID, c.Account)
		a.replace(b, c.ID, c.Account, c.due())
	}
}

// replace has the rows of an owner be those of due that lie ahead; in a rebuild also the others, of which the clock may
// not have taken all.
func (a *applying) replace(b *pgx.Batch, owner, account string, due []Due) {
	if !a.firstHeard(owner) {
		stays := []string{}
		for _, d := range due {
			stays = append(stays, fmt.Sprintf("%s %s %d", d.Object, d.Why, d.At.UnixMicro()))
		}
		b.Queue(forgetDueSQL, a.subject.Mode, owner, stays)
	}
	for _, d := range due {
		if d.At.After(a.at) || a.how == inScratch {
			a.await(b, owner, account, d)
		}
	}
}

func (a *applying) await(b *pgx.Batch, owner, account string, d Due) {
	c := d.Cause
	b.Queue(awaitSQL, a.subject.Mode, owner, account, d.Object, d.Why, d.Step, d.At, c.Provider, c.ProviderAccount, c.EventID, c.ReceiptID, c.At)
}

// keep says when a person is asked to release the workspace of an account: some time after what granted it last was over.
// An account that never had one is not asked about, and neither is one that a person holds.
func (a *applying) keep(b *pgx.Batch, before Target, after Access, last over) {
	if after.Account == "" || after.Target.Version == 0 {
		return
	}
	mode, row := a.subject.Mode, a.accounts[after.Account]
	later := last.at.After(orZero(row.OverAt))
	if later {
		b.Queue(overSQL, mode, after.Account, last.at)
	}
	if after.Target.State == WorkspaceActive {
		if before.State == WorkspaceSuspended {
			a.replace(b, after.Account, after.Account, nil)
			b.Queue(closeTaskSQL, mode, TaskRelease, before.Kept(after.Account), TaskCancelled)
		}
		return
	}
	if row.Held || last.at.IsZero() || last.cause.At.Before(a.policy.EffectsFrom) || !later && before.State == WorkspaceSuspended {
		return
	}
	since := latest(last.at, orZero(row.OverAt))
	due := []Due{{At: since.Add(a.policy.Keep), Why: DueKeep, Object: after.Account, Cause: last.cause}}
	a.replace(b, after.Account, after.Account, due)
	a.change.Due = append(a.change.Due, come(due, a.at)...)
}

// over returns when what is written granted to an account, and does not any more, was over: of what was over last.
func (a *applying) over(account string) (last over) {
	see := func(o over) {
		if o.at.After(last.at) {
			last = o
		}
	}
	for _, s := range a.subscriptionsOf(account) {
		see(s.over(a.at))
	}
	for _, i := range a.invoices {
		if i.Account == account {
			see(i.over(a.at))
		}
	}
	for _, c := range a.ownSessions() {
		if c.Account == account {
			see(c.over(a.at))
		}
	}
	return last
}

// ApplyDue does what is due of an account at a time, or since, in the database: it brings access to what is granted by
// now, takes the rows away, and writes news to the outbox. It does so in tx, which also holds the effect's ledger row.
// What follows is planned from the change. No fold changes: no fact has come, and none asks what time it is.
//
// It locks the account's row alone. The facts of its customers wait at that, too, before they write anything.
func ApplyDue(ctx context.Context, tx ledger.Tx, s Subject, account string, at time.Time, p Policy, effectKey string) (Change, error) {
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
	a.accounts, a.grants = map[string]accountRow{}, map[string][]Grant{}
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
	var last over
	for _, d := range taken {
		switch d.Why {
		case DueEnd, DueGrace, DueOneOff:
			if d.At.After(last.at) {
				last = over{d.At, d.Cause}
			}
		case DueDunning:
			if err := a.remind(ctx, d); err != nil {
				return err
			}
		default:
			a.change.Due = append(a.change.Due, d)
		}
	}
	a.change.Before.Access = a.accessOf(account, a.grants[account])
	a.change.After.Access = a.target(account, a.grants[account])
	b = &pgx.Batch{}
	a.writeAccess(b, a.change.Before.Access.Target, a.change.After.Access)
	a.keep(b, a.change.Before.Access.Target, a.change.After.Access, last)
	if err := a.announce(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// remind adds a step of an invoice's dunning to the change, where it is still the newest.
func (a *applying) remind(ctx context.Context, d Due) error {
	i, err := known[Invoice](ctx, a.tx, invoiceSQL, a.subject.Mode, d.Object)
	if err != nil {
		return err
	}
	for _, now := range come(i.dunning(a.policy), a.at) {
		if now.Step == d.Step {
			now.Invoice = &i
			a.change.Due = append(a.change.Due, now)
		}
	}
	return nil
}

func scanDue(row pgx.CollectableRow) (Due, error) {
	var d Due
	err := row.Scan(&d.Object, &d.Why, &d.Step, &d.At, &d.Cause.Provider, &d.Cause.ProviderAccount, &d.Cause.EventID, &d.Cause.ReceiptID, &d.Cause.At)
	d.At, d.Cause.At = d.At.UTC(), d.Cause.At.UTC()
	return d, err
}
