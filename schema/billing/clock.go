package billing

import (
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// schedule replaces the scheduled actions of the objects. An action that is already due becomes part of the change and
// is executed by the run of the event. The row of a due action is not deleted here, because a scheduled run may already
// be executing it.
func (a *applying) schedule(b *pgx.Batch) {
	if f := a.facts[0]; a.how == normal && f.Link != nil && f.Link.Of != "" {
		// If a person assigns money to an account, the provider sends no event about the assignment. A scheduled run
		// books the money.
		await(b, a.subject.Mode, f.Object, f.Link.Account,
			fold.Due{At: a.at, Kind: fold.DueBook, Object: f.Object, Cause: fact.CauseOf(f)})
	}
	before := fold.Related{Facts: a.known, Objects: a.before, Policy: a.policy}
	now := fold.Related{Facts: a.known, Objects: a.now, Policy: a.policy}
	for _, o := range a.touched() {
		ref, was := o.Reference(), a.before[fold.KeyOf(o)]
		if was != nil && was.Reference().Account != ref.Account {
			b.Queue(moveDueSQL, a.subject.Mode, ref.ID, ref.Account)
		}
		// an object that only moves with its customer keeps its scheduled actions
		named := was != nil && was.Reference().Account != ""
		if named && ref.Account == "" { // the object does not belong to a mapped product any more
			a.replace(b, ref.ID, "", nil, true)
		}
		if ref.Account == "" || named && !a.folded[fold.KeyOf(o)] && !learnt(o, was) {
			continue
		}
		var had []fold.Due
		if named {
			had = was.Scheduled(before, a.at)
		}
		due := o.Scheduled(now, a.at)
		if a.how != normal || !reflect.DeepEqual(had, due) {
			a.replace(b, ref.ID, ref.Account, due, had != nil || a.how != normal)
		}
		a.dueAlready(due)
	}
}

// dueAlready adds the actions that became due before the facts arrived to the change.
func (a *applying) dueAlready(due []fold.Due) {
	i, s := a.change.After.Invoice, a.change.After.Subscription
	for _, d := range fold.DueBy(a.at, due) {
		switch {
		case d.Kind == fold.DueDunning && i != nil && d.Object == i.ID:
			d.Invoice = i
		case d.Kind == fold.DueEnding && s != nil && d.Object == s.ID && s.EndsAt.After(a.at):
			d.Subscription = s
		default:
			continue
		}
		a.change.Due = append(a.change.Due, d)
	}
}

// replace replaces the future actions of an owner with due. It keeps actions that are due now and are still part of
// due, because a scheduled run may not have executed them. some is set if the owner may have rows.
func (a *applying) replace(b *pgx.Batch, owner, account string, due []fold.Due, some bool) {
	if some {
		stays := []string{}
		for _, d := range due {
			stays = append(stays, fmt.Sprintf("%s %s %d", d.Object, d.Kind, d.At.UnixMicro()))
		}
		b.Queue(forgetDueSQL, a.subject.Mode, owner, stays)
	}
	for _, d := range due {
		if d.At.After(a.at) || a.how == inScratch {
			await(b, a.subject.Mode, owner, account, d)
		}
	}
}

func await(b *pgx.Batch, mode, owner, account string, d fold.Due) {
	c := d.Cause
	b.Queue(awaitSQL, mode, owner, account, d.Object, d.Kind, d.Step, d.At, c.Provider, c.ProviderAccount, c.EventID,
		c.ReceiptID, c.At)
}

// scheduleRelease schedules the task to release the workspace of an account, Policy.Keep after the last grant ended. It
// schedules nothing if the account never had a grant, or if a person put the account on hold.
func (a *applying) scheduleRelease(b *pgx.Batch, before fold.Target, after fold.Access, last fold.Lapse) {
	if after.Account == "" || after.Target.Version == 0 {
		return
	}
	mode, row := a.subject.Mode, a.accounts[after.Account]
	later := last.At.After(orZero(row.OverAt))
	if later {
		b.Queue(lapsedSQL, mode, after.Account, last.At)
	}
	if after.Target.State == fold.WorkspaceActive {
		if before.State == fold.WorkspaceSuspended {
			a.replace(b, after.Account, after.Account, nil, true)
			b.Queue(closeTaskSQL, mode, TaskRelease, before.Kept(after.Account), fold.TaskCancelled)
		}
		return
	}
	if row.Held || last.At.IsZero() || last.Cause.At.Before(a.policy.EffectsFrom) || !later &&
		before.State == fold.WorkspaceSuspended {
		return
	}
	since := fold.Latest(last.At, orZero(row.OverAt))
	due := []fold.Due{{At: since.Add(a.policy.Keep), Kind: fold.DueKeep, Object: after.Account, Cause: last.Cause}}
	a.replace(b, after.Account, after.Account, due, true)
	a.change.Due = append(a.change.Due, fold.DueBy(a.at, due)...)
}

// scheduleAddOns schedules the task about add-ons of an account that has no plan. The task opens some time after the
// add-ons started, because the events of two subscriptions can arrive in any order.
func (a *applying) scheduleAddOns(b *pgx.Batch, before fold.Target, after fold.Access, cause fact.Cause) {
	if after.Account == "" || before.Version == after.Target.Version {
		return
	}
	addsAlone := func(g fold.Grant) bool { return g.Plan == "" && len(g.AddOns) > 0 && g.Ends.IsZero() }
	var due []fold.Due
	if after.Target.State == fold.WorkspaceActive {
		// read the grants before the change: an add-on can have its own plan
		for _, g := range a.granted[after.Account] {
			if addsAlone(g) {
				b.Queue(closeTaskSQL, a.subject.Mode, TaskReconcile, g.Object, fold.TaskCancelled)
			}
		}
	} else if !a.policy.EffectsFrom.After(cause.At) {
		for _, g := range after.Grants {
			if addsAlone(g) {
				due = append(due, fold.Due{At: a.at.Add(a.policy.Settle), Kind: fold.DueAddOn, Object: g.Object,
					Cause: cause})
			}
		}
	}
	a.replace(b, after.Account+" add-ons", after.Account, due, before.State == fold.WorkspaceSuspended)
}

func scanDue(row pgx.CollectableRow) (fold.Due, error) {
	var d fold.Due
	err := row.Scan(&d.Object, &d.Kind, &d.Step, &d.At, &d.Cause.Provider, &d.Cause.ProviderAccount, &d.Cause.EventID,
		&d.Cause.ReceiptID, &d.Cause.At)
	d.At, d.Cause.At = d.At.UTC(), d.Cause.At.UTC()
	return d, err
}

// forgetDueSQL deletes the scheduled actions of an owner except those in stays.
const forgetDueSQL = `
delete from due where owner = $2 and mode = $1
   and object || ' ' || why || ' ' || (extract(epoch from at) * 1000000)::bigint <> all($3)`

const moveDueSQL = `update due set account = $3 where mode = $1 and owner = $2`

const awaitSQL = `
insert into due (mode, owner, account, object, why, step, at, provider, provider_account, event_id, receipt_id, occurred_at, next_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::uuid, $12, $7)
    on conflict (mode, object, why, at) do update set owner = excluded.owner, account = excluded.account, step = excluded.step,
       provider = excluded.provider, provider_account = excluded.provider_account, event_id = excluded.event_id,
       receipt_id = excluded.receipt_id, occurred_at = excluded.occurred_at`

// takeDueSQL deletes the due actions of an account and returns them. It skips a payment with a refund that only its
// charge reports: the action became due after the run had looked for such refunds. The next run books it.
const takeDueSQL = `
delete from due where account = $2 and mode = $1 and at <= $3 and not (why = 'book' and coalesce((
    select state ? 'UnexplainedBy' from objects o where o.mode = $1 and o.id = due.object and o.kind = 'payment'), false))
returning object, why, step, at, provider, provider_account, event_id, receipt_id::text, occurred_at`
