package billing

import (
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// schedule replaces the due rows of the objects. Steps that are due by now go into the change, and the event's own
// run does them. A row whose time has come stays until the clock's run takes it, since that one may have begun.
func (a *applying) schedule(b *pgx.Batch) {
	if f := a.facts[0]; a.how == normal && f.Link != nil && f.Link.Of != "" {
		// No run is about what a person has given to an account: the clock books it.
		await(b, a.subject.Mode, f.Object, f.Link.Account,
			Due{At: a.at, Why: DueBook, Object: f.Object, Cause: causeOf(f)})
	}
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

func scanDue(row pgx.CollectableRow) (Due, error) {
	var d Due
	err := row.Scan(&d.Object, &d.Why, &d.Step, &d.At, &d.Cause.Provider, &d.Cause.ProviderAccount, &d.Cause.EventID,
		&d.Cause.ReceiptID, &d.Cause.At)
	d.At, d.Cause.At = d.At.UTC(), d.Cause.At.UTC()
	return d, err
}
