package billing

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/outbox"
)

// write writes the changes: objects with their tasks, grants and due rows, the targets of their accounts, and the
// news.
func (a *applying) write(ctx context.Context) error {
	b := &pgx.Batch{}
	for _, f := range a.told {
		if err := appendFact(b, f); err != nil {
			return err
		}
	}
	for _, o := range a.now.list() {
		if err := a.writeObject(b, o, a.before[keyOf(o)]); err != nil {
			return err
		}
	}
	a.askForPrices(b)
	if err := a.anew.askFor(ctx, a, b); err != nil {
		return err
	}
	a.writeGrants(b)
	a.schedule(b)
	a.anew.sendLetters(a, b)
	a.writeTargets(b)
	a.note(b)
	if err := a.tell(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// writeObject writes an object if it has changed.
func (a *applying) writeObject(b *pgx.Batch, o, was Object) error {
	ref, mode := o.ref(), a.subject.Mode
	if was != nil && reflect.DeepEqual(o, was) && !(a.how == repairing && a.folded[keyOf(o)]) {
		return nil
	}
	state, err := json.Marshal(o)
	if err != nil {
		return err
	}
	sql, columns := o.row()
	if sql == writeObjectSQL {
		columns = append(columns, o.kind())
	}
	b.Queue(sql, append(append([]any{mode, ref.ID, ref.Account, ref.Customer}, columns...), state)...)
	for _, t := range o.tasks() {
		b.Queue(settleTaskSQL, mode, t.Kind, t.Object, t.Account, t.State, t.Title, a.key, orNull(t.DueBy))
	}
	if was != nil && len(o.tasks()) == 0 { // by another meaning nobody was ever to be asked
		for _, t := range was.tasks() {
			b.Queue(closeTaskSQL, mode, t.Kind, t.Object, TaskCancelled)
		}
	}
	switch o := o.(type) {
	case *Subscription:
		known, _ := was.(*Subscription)
		if known == nil && len(related{objects: a.before}.invoicesOf(o.ID)) > 0 || known != nil &&
			known.Account != o.Account {
			b.Queue(moveInvoicesSQL, mode, o.ID, o.Account, o.NotOurs)
			b.Queue(moveOfSubscriptionSQL, mode, o.ID, o.Account, o.NotOurs)
		}
		if o.Ended() {
			b.Queue(endTasksSQL, mode, o.ID)
		}
		a.welcome(b, known != nil, o.ID, known.welcomes(), o.welcomes())
		settled := known != nil && known.Unsettled != (Cause{}) && o.Unsettled == (Cause{})
		if settled || known != nil && !o.RenewsBy.Equal(known.RenewsBy) && !known.RenewsBy.After(a.at) {
			b.Queue(closeTaskSQL, mode, TaskReconcile, o.ID, TaskCancelled)
		}
	case *Invoice:
		if !a.folded[keyOf(o)] { // it has moved with its customer
			b.Queue(moveOfInvoiceSQL, mode, o.ID, o.Account, o.NotOurs)
		}
		known, _ := was.(*Invoice)
		a.welcome(b, known != nil, o.ID, known.welcomes(), o.welcomes())
	}
	return nil
}

// welcome cancels the task to welcome a customer on a plan that an object does not grant any more, and opens it again
// with the plan. A repair opens none.
func (a *applying) welcome(b *pgx.Batch, known bool, object, was, is string) {
	if !known || was == is {
		return
	}
	if was != "" {
		b.Queue(closeTaskSQL, a.subject.Mode, TaskOnboarding, object+":"+was, TaskCancelled)
	}
	if is != "" && a.how == normal {
		b.Queue(reopenTaskSQL, a.subject.Mode, TaskOnboarding, object+":"+is, a.key)
	}
}

// writeGrants replaces the grants of the objects that were touched.
func (a *applying) writeGrants(b *pgx.Batch) {
	mode, had, has := a.subject.Mode, map[string]bool{}, map[string]bool{}
	for account, grants := range a.granted {
		for _, g := range grants {
			had[g.Object] = true
			same := func(o Grant) bool { return reflect.DeepEqual(o, g) }
			has[g.Object] = a.how != repairing && slices.ContainsFunc(a.gives[account], same)
		}
	}
	for _, o := range a.touched() {
		ref := o.ref()
		grants := grantsOf([]Object{o}, ref.Account)
		if len(grants) == 0 && (had[ref.ID] || a.how == repairing) {
			b.Queue(takeSQL, mode, ref.ID)
		}
		for _, g := range grants {
			if ref.Account != "" && !has[g.Object] {
				b.Queue(giveSQL, mode, g.Object, ref.Account, g.Plan, g.Quantity, texts(g.AddOns), orNull(g.Until),
					orNull(g.Ends), g.Because)
			}
		}
	}
}

// writeTargets writes what the accounts may use now, and when their workspaces may be released.
func (a *applying) writeTargets(b *pgx.Batch) {
	if a.holds != "" {
		b.Queue(holdSQL, a.subject.Mode, a.holds, a.accounts[a.holds].Held)
	}
	var last lapse
	for _, o := range a.touched() {
		if l := o.lapsed(a.at); o.ref().Account == a.change.After.Access.Account && l.at.After(last.at) {
			last = l
		}
	}
	a.writeAccounts(b, last, causeOf(a.facts[0]))
}

// writeAccounts writes what the accounts may use now. last is when what granted something last to the one that the
// change is about was over; an account that was left is not over, and nobody is asked to release it. cause is what has
// changed the targets.
func (a *applying) writeAccounts(b *pgx.Batch, last lapse, cause Cause) {
	for _, after := range a.accesses() {
		before := a.accounts[after.Account].target()
		a.writeAccess(b, before, after)
		a.scheduleRelease(b, before, after, last)
		a.scheduleAddOns(b, before, after, cause)
		last = lapse{}
		due := Due{At: a.at, Object: after.Account, Cause: cause}
		switch { // no run is about either
		case after.Target.Version == before.Version:
			continue
		case a.how == repairing:
			due.Why = DueRefold
		case after.Account == a.holds:
			due.Why = DueHold
		default:
			continue
		}
		await(b, a.subject.Mode, after.Account, after.Account, due)
	}
}

// accesses are those of the accounts concerned, first the one that the change is about.
func (a *applying) accesses() []Access {
	return append([]Access{a.change.After.Access}, a.change.Others...)
}

func (a *applying) writeAccess(b *pgx.Batch, before Target, after Access) {
	t := after.Target
	if after.Account == "" || t.Version == before.Version && a.how != repairing {
		return
	}
	b.Queue(writeTargetSQL, a.subject.Mode, after.Account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features))
}

// tell writes the news to the outbox. A repair tells its changes, also those of imported objects.
func (a *applying) tell(b *pgx.Batch) error {
	if a.change.Silent && a.how != repairing {
		return nil
	}
	var list []news
	for _, o := range a.now.list() {
		list = append(list, o.news(a.subject, a.before[keyOf(o)])...)
	}
	for _, after := range a.accesses() {
		list = append(list, a.newsOfAccess(after)...)
	}
	var told []outbox.News
	for _, n := range list {
		data, err := json.Marshal(n.data)
		if err != nil {
			return err
		}
		if n.account != "" {
			told = append(told, outbox.News{Account: n.account, Type: n.kind, Data: data})
		}
	}
	outbox.Write(b, a.subject.Mode, a.subject.ReceiptID, a.key, told)
	return nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

const writeObjectSQL = `
insert into objects (mode, id, account, customer, payment, invoice, subscription, kind, state) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (mode, id, kind) do update set account = excluded.account, customer = excluded.customer, payment = excluded.payment,
       invoice = excluded.invoice, subscription = excluded.subscription, state = excluded.state, updated_at = now()`

func (r *Ref) row() (sql string, columns []any) {
	return writeObjectSQL, []any{r.Payment, r.Invoice, r.Subscription}
}

// The following move what belongs to $2 to account $3, or to no account of ours where $4 says that it is not ours.
// Finance entries stay where they were booked.
const (
	moved = ` set account = $3, state = jsonb_set(case when $4::bool then state || '{"NotOurs":true}' else state - 'NotOurs' end,
       '{Account}', to_jsonb($3::text)), updated_at = now()
 where mode = $1 and (account <> $3 or (state ? 'NotOurs') <> $4) and `

	moveInvoicesSQL       = `update invoices` + moved + `subscription = $2 and subscription <> ''`
	moveOfSubscriptionSQL = `update objects` + moved + `subscription = $2 and subscription <> ''`
	moveOfInvoiceSQL      = `update objects` + moved + `invoice = $2 and invoice <> ''`
)
