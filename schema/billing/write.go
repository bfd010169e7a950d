package billing

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/withheld"
)

// write writes all changes: the objects with their tasks, grants and scheduled actions, the targets of the accounts,
// and the published events.
func (a *applying) write(ctx context.Context) error {
	b := &pgx.Batch{}
	for _, f := range a.told {
		if err := AppendFact(b, f); err != nil {
			return err
		}
	}
	for _, o := range a.now.List() {
		if err := a.writeObject(b, o, a.before[fold.KeyOf(o)]); err != nil {
			return err
		}
	}
	a.askForPrices(b)
	if err := a.askForEntries(ctx, b); err != nil {
		return err
	}
	writeSubjects(a, b)
	a.writeGrants(b)
	a.schedule(b)
	a.writeTargets(b)
	followRegrant(a, b)
	a.note(b)
	if err := a.tell(b); err != nil {
		return err
	}
	withheld.Write(b, a.subject.Mode, a.subject.ReceiptID, a.withheld)
	return a.tx.SendBatch(ctx, b).Close()
}

func (a *applying) writeObject(b *pgx.Batch, o, was fold.Object) error {
	ref, mode := o.Reference(), a.subject.Mode
	if was != nil && reflect.DeepEqual(o, was) && !(a.how == repairing && a.folded[fold.KeyOf(o)]) {
		return nil
	}
	state, err := json.Marshal(o)
	if err != nil {
		return err
	}
	sql, columns := rowOf(o)
	if sql == writeObjectSQL {
		columns = append(columns, o.Kind())
	}
	b.Queue(sql, append(append([]any{mode, ref.ID, ref.Account, ref.Customer}, columns...), state)...)
	if err := a.writeTasks(b, o.Tasks(), tasksOf(was)); err != nil {
		return err
	}
	switch o := o.(type) {
	case *fold.Subscription:
		known, _ := was.(*fold.Subscription)
		if known == nil && len(fold.Related{Objects: a.before}.InvoicesOf(o.ID)) > 0 || known != nil &&
			known.Account != o.Account {
			b.Queue(moveInvoicesSQL, mode, o.ID, o.Account, o.NotOurs)
			b.Queue(moveOfSubscriptionSQL, mode, o.ID, o.Account, o.NotOurs)
		}
		if o.Ended() {
			b.Queue(endTasksSQL, mode, o.ID)
		}
		a.welcome(b, known != nil, o.ID, known.Welcomes(), o.Welcomes())
		settled := known != nil && (known.Unsettled != (fact.Cause{}) && o.Unsettled == (fact.Cause{}) ||
			known.Partial && !o.Partial)
		renewed := known != nil && !o.RenewsBy.Equal(known.RenewsBy) && !known.RenewsBy.After(a.at)
		if (settled || renewed) && !o.Partial {
			b.Queue(closeTaskSQL, mode, TaskReconcile, o.ID, fold.TaskCancelled)
		}
	case *fold.Invoice:
		if !a.folded[fold.KeyOf(o)] { // only its account has changed, together with the account of its customer
			b.Queue(moveOfInvoiceSQL, mode, o.ID, o.Account, o.NotOurs)
		}
		known, _ := was.(*fold.Invoice)
		a.welcome(b, known != nil, o.ID, known.Welcomes(), o.Welcomes())
		if known != nil && known.Cut && !o.Cut {
			b.Queue(closeTaskSQL, mode, TaskReconcile, o.ID, fold.TaskCancelled)
		}
	}
	return nil
}

// writeTasks opens and cancels the tasks of an object. had are the tasks that the object had before.
func (a *applying) writeTasks(b *pgx.Batch, tasks, had []fold.Task) error {
	mode := a.subject.Mode
	for _, t := range tasks {
		if a.change.Silent && t.State == fold.TaskOpen {
			if err := a.withhold(t); err != nil {
				return err
			}
			continue
		}
		if again := t.Kind == fold.TaskCorrection && t.State == fold.TaskOpen && a.how == normal; again &&
			!slices.ContainsFunc(had, func(h fold.Task) bool { return h.Kind == t.Kind && h.State == fold.TaskOpen }) {
			b.Queue(reopenDoneSQL, mode, t.Kind, t.Object)
		}
		b.Queue(settleTaskSQL, mode, t.Kind, t.Object, t.Account, t.State, t.Title, a.key, orNull(t.DueBy), t.Amount,
			t.Currency)
	}
	for _, h := range had { // the order was granted again, or the task is unnecessary under the active billing rules
		if !slices.ContainsFunc(tasks, func(t fold.Task) bool { return t.Kind == h.Kind }) {
			b.Queue(closeTaskSQL, mode, h.Kind, h.Object, fold.TaskCancelled)
		}
	}
	return nil
}

func tasksOf(o fold.Object) []fold.Task {
	if o == nil {
		return nil
	}
	return o.Tasks()
}

// welcome updates the onboarding task of an object when its granted plan changes from was to is. It cancels the task of
// the plan was. If the task of the plan is was cancelled before, welcome opens that task again, except in a repair.
func (a *applying) welcome(b *pgx.Batch, known bool, object, was, is string) {
	if !known || was == is {
		return
	}
	if was != "" {
		b.Queue(closeTaskSQL, a.subject.Mode, TaskOnboarding, object+":"+was, fold.TaskCancelled)
	}
	if is != "" && a.how == normal {
		b.Queue(reopenTaskSQL, a.subject.Mode, TaskOnboarding, object+":"+is, a.key)
	}
}

func (a *applying) writeGrants(b *pgx.Batch) {
	mode, had, has := a.subject.Mode, map[string]bool{}, map[string]bool{}
	for account, grants := range a.granted {
		for _, g := range grants {
			had[g.Object] = true
			same := func(o fold.Grant) bool { return reflect.DeepEqual(o, g) }
			has[g.Object] = a.how != repairing && slices.ContainsFunc(a.gives[account], same)
		}
	}
	for _, o := range a.touched() {
		ref := o.Reference()
		grants := fold.GrantsOf([]fold.Object{o}, ref.Account)
		if len(grants) == 0 && (had[ref.ID] || a.how == repairing) {
			b.Queue(takeSQL, mode, ref.ID)
		}
		for _, g := range grants {
			if ref.Account != "" && !has[g.Object] {
				b.Queue(giveSQL, mode, g.Object, ref.Account, g.Plan, g.Quantity, texts(g.AddOns), orNull(g.Until),
					orNull(g.Ends), g.Event, g.Ended)
			}
		}
	}
}

// writeTargets writes the access of the accounts, and schedules the release of their workspaces.
func (a *applying) writeTargets(b *pgx.Batch) {
	if a.holds != "" {
		b.Queue(holdSQL, a.subject.Mode, a.holds, a.accounts[a.holds].Held)
	}
	var last fold.Lapse
	for _, o := range a.touched() {
		if l := o.Lapsed(a.at); o.Reference().Account == a.change.After.Access.Account && l.At.After(last.At) {
			last = l
		}
	}
	a.writeAccounts(b, last, fact.CauseOf(a.facts[0]))
}

// writeAccounts writes the access of the accounts. last is when the last grant of the change's account ended. An
// account that objects have left has no such time, and gets no task to release its workspace. cause is the fact that
// changed the targets.
func (a *applying) writeAccounts(b *pgx.Batch, last fold.Lapse, cause fact.Cause) {
	for _, after := range a.accesses() {
		before := a.accounts[after.Account].target()
		a.writeAccess(b, before, after)
		a.scheduleRelease(b, before, after, last)
		a.scheduleAddOns(b, before, after, cause)
		last = fold.Lapse{}
		due := fold.Due{At: a.at, Object: after.Account, Cause: cause}
		switch { // no event reports either of these changes
		case after.Target.Version == before.Version:
			continue
		case a.how == repairing:
			due.Kind = fold.DueRefold
		case after.Account == a.holds:
			due.Kind = fold.DueHold
		default:
			continue
		}
		await(b, a.subject.Mode, after.Account, after.Account, due)
	}
}

// accesses returns the access of the affected accounts. The account of the change comes first.
func (a *applying) accesses() []fold.Access {
	return append([]fold.Access{a.change.After.Access}, a.change.Others...)
}

func (a *applying) writeAccess(b *pgx.Batch, before fold.Target, after fold.Access) {
	t := after.Target
	if after.Account == "" || t.Version == before.Version && a.how != repairing {
		return
	}
	b.Queue(writeTargetSQL, a.subject.Mode, after.Account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features))
}

// tell writes the published events to the outbox, or withholds them. A repair publishes its changes even for imported
// objects.
func (a *applying) tell(b *pgx.Batch) error {
	silent := a.change.Silent && a.how != repairing
	if silent && (len(a.facts) == 0 || a.facts[0].Origin == fact.FromImport) {
		return nil
	}
	var list []fold.News
	for _, o := range a.now.List() {
		list = append(list, o.News(a.subject, a.before[fold.KeyOf(o)])...)
	}
	for _, after := range a.accesses() {
		list = append(list, a.newsOfAccess(after)...)
	}
	var told []outbox.News
	for _, n := range list {
		data, err := json.Marshal(n.Data)
		if err != nil {
			return err
		}
		if n.Account != "" {
			told = append(told, outbox.News{Account: n.Account, Type: n.Kind, Data: data})
		}
	}
	if silent {
		return a.withholdNews(told)
	}
	outbox.Write(b, a.subject.Mode, a.subject.ReceiptID, a.key, told)
	return nil
}

// newsOfAccess returns the event about the changed target of an account, or none if the target is unchanged.
func (a *applying) newsOfAccess(after fold.Access) []fold.News {
	t := after.Target
	if t.Version == a.accounts[after.Account].Version {
		return nil
	}
	data := t.News(a.subject.Mode, after.Account, a.subject.EventID)
	if a.how == repairing {
		data.Cause = a.key
	}
	return []fold.News{{Account: after.Account, Kind: "access.changed", Data: data}}
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

const writeSubscriptionSQL = `
insert into subscriptions (mode, id, account, customer, status, plan, quantity, ended, state) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (mode, id) do update set account = excluded.account, customer = excluded.customer, status = excluded.status,
       plan = excluded.plan, quantity = excluded.quantity, ended = excluded.ended, state = excluded.state, updated_at = now()`

const writeInvoiceSQL = `
insert into invoices (mode, id, account, customer, subscription, status, amount, currency, period_start, occurred_at, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    on conflict (mode, id) do update set account = excluded.account, customer = excluded.customer, subscription = excluded.subscription,
       status = excluded.status, amount = excluded.amount, currency = excluded.currency, period_start = excluded.period_start,
       occurred_at = excluded.occurred_at, state = excluded.state, updated_at = now()`

// rowOf returns the statement that writes an object, and the values for its columns. Mode, ID, account, customer and
// state are not included.
func rowOf(o fold.Object) (sql string, columns []any) {
	switch o := o.(type) {
	case *fold.Subscription:
		return writeSubscriptionSQL, []any{o.Status, o.Plan, o.Quantity, o.Ended()}
	case *fold.Invoice:
		return writeInvoiceSQL, []any{o.Subscription, o.Status, o.Paid, o.Currency, o.PeriodStart, o.OccurredAt}
	}
	ref := o.Reference()
	return writeObjectSQL, []any{ref.Payment, ref.Invoice, ref.Subscription}
}

// These statements move everything that belongs to $2 to account $3. If $4 is set, they mark it as another product,
// without an account.
const (
	moved = ` set account = $3, state = jsonb_set(case when $4::bool then state || '{"NotOurs":true}' else state - 'NotOurs' end,
       '{Account}', to_jsonb($3::text)), updated_at = now()
 where mode = $1 and (account <> $3 or (state ? 'NotOurs') <> $4) and `

	moveInvoicesSQL       = `update invoices` + moved + `subscription = $2 and subscription <> ''`
	moveOfSubscriptionSQL = `update objects` + moved + `subscription = $2 and subscription <> ''`
	moveOfInvoiceSQL      = `update objects` + moved + `invoice = $2 and invoice <> ''`
)
