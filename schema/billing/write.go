package billing

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/outbox"
)

// write writes the rows and the news.
func (a *applying) write(ctx context.Context) error {
	b := &pgx.Batch{}
	mode := a.subject.Mode
	granted := map[string]bool{}
	for _, given := range a.grants {
		for _, g := range given {
			granted[g.Object] = true
		}
	}
	if err := a.writeSubscriptions(b, granted); err != nil {
		return err
	}
	if err := a.writeInvoices(b, granted); err != nil {
		return err
	}
	if err := a.writeMoney(b, granted); err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(a.grants)) {
		for _, g := range a.grants[account] {
			b.Queue(giveSQL, mode, g.Object, account, g.Plan, g.Quantity, texts(g.AddOns), orNull(g.Until), orNull(g.Ends), g.Because)
		}
	}
	if a.holds != "" {
		b.Queue(holdSQL, mode, a.holds, a.accounts[a.holds].Held)
	}
	a.ask(b)
	a.schedule(b)
	a.writeTargets(b)
	if err := a.announce(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// writeSubscriptions writes the subscriptions, and moves with one what belongs to it. What grants nothing any more is
// taken; granted names what does.
func (a *applying) writeSubscriptions(b *pgx.Batch, granted map[string]bool) error {
	mode := a.subject.Mode
	for _, s := range a.subscriptions {
		state, err := json.Marshal(s)
		if err != nil {
			return err
		}
		b.Queue(writeSubscriptionSQL, mode, s.ID, s.Account, s.Customer, s.Status, s.Plan, s.Quantity, s.Ended(), state)
		if s.Ended() {
			b.Queue(endTasksSQL, mode, s.ID)
		}
		if !granted[s.ID] {
			b.Queue(takeSQL, mode, s.ID)
		}
		if held := a.held.subscription; !a.firstHeard(s.ID) && (held == nil || held.ID != s.ID || held.Account != s.Account) {
			b.Queue(moveSQL("invoices", "subscription"), mode, s.ID, s.Account)
			if held != nil || a.linked {
				a.moveMoney(b, "subscription", s.ID, s.Account)
			}
		}
	}
	return nil
}

// writeInvoices is [applying.writeSubscriptions] for invoices.
func (a *applying) writeInvoices(b *pgx.Batch, granted map[string]bool) error {
	mode := a.subject.Mode
	for _, i := range a.invoices {
		if i.ID != a.invoice { // it moves with its customer
			b.Queue(moveSQL("invoices", "id"), mode, i.ID, i.Account)
			a.moveMoney(b, "invoice", i.ID, i.Account)
			continue
		}
		state, err := json.Marshal(i)
		if err != nil {
			return err
		}
		b.Queue(writeInvoiceSQL, mode, i.ID, i.Account, i.Subscription, i.Customer, i.Status, i.Paid, i.Currency,
			i.PeriodStart, i.OccurredAt, a.receiptOf(i), state)
		if i.Subscription == "" && !granted[i.ID] {
			b.Queue(takeSQL, mode, i.ID)
		}
	}
	return nil
}

// writeTargets writes what the accounts may use now, and what is due of that.
func (a *applying) writeTargets(b *pgx.Batch) {
	before, after := a.change.Before.Access.Target, a.change.After.Access
	a.writeAccess(b, before, after)
	a.keep(b, before, after, a.over(after.Account))
	for _, other := range a.change.Others {
		was := a.accounts[other.Account].target()
		a.writeAccess(b, was, other)
		a.keep(b, was, other, over{a.subject.OccurredAt, causeOf(a.facts[0])})
	}
	if a.holds != "" && after.Target.Version != before.Version { // no run is about such a fact
		a.await(b, a.holds, a.holds, Due{At: a.at, Why: DueHold, Object: a.holds, Cause: causeOf(a.facts[0])})
	}
}

// firstHeard reports whether nothing was known of a subscription, and none of its invoices: nothing moves with it, and
// nothing of it is due.
func (a *applying) firstHeard(subscription string) bool {
	return subscription == a.subscription && a.held.subscription == nil && len(a.held.billed) == 0
}

// ask opens the tasks about prices that no mapping knows and about invoices that cannot be finalized, and closes those
// about what is mended by now.
func (a *applying) ask(b *pgx.Batch) {
	settle := func(t settledTask, asks bool) {
		if asks {
			b.Queue(settleTaskSQL, a.subject.Mode, t.Kind, t.Object, t.Account, t.State, t.Title, a.key)
		}
	}
	for _, s := range a.subscriptions {
		settle(planTask(s))
	}
	for _, i := range a.invoices {
		settle(stuckTask(i))
	}
}

// receiptOf is the receipt whose body shows the invoice: that of the last of its facts.
func (a *applying) receiptOf(i Invoice) string {
	ordered := InOrder(a.about[i.ID], InvoiceSeen)
	if len(ordered) == 0 {
		return a.subject.ReceiptID
	}
	return ordered[len(ordered)-1].ReceiptID
}

func (a *applying) writeAccess(b *pgx.Batch, before Target, after Access) {
	t := after.Target
	if after.Account == "" || t.Version == before.Version && a.how != repairing {
		return
	}
	b.Queue(writeTargetSQL, a.subject.Mode, after.Account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features))
	if before.Version > 0 { // it may have features
		b.Queue(disableFeaturesSQL, a.subject.Mode, after.Account, texts(t.Features))
	}
	if len(t.Features) > 0 {
		b.Queue(enableFeaturesSQL, a.subject.Mode, after.Account, t.Features)
	}
}

// announce writes the news to the outbox.
func (a *applying) announce(b *pgx.Batch) error {
	if a.change.Silent {
		return nil
	}
	var list []news
	if i := a.change.After.Invoice; i != nil {
		list = append(list, newsOfInvoice(a.subject, a.change.Before.Invoice, *i)...)
	}
	if s := a.change.After.Subscription; s != nil {
		list = append(list, newsOfSubscription(a.subject, a.change.Before.Subscription, *s)...)
	}
	list = append(list, newsOfMoney(a.subject, a.change.Before, a.change.After)...)
	list = append(list, newsOfAccess(a.subject, a.change.Before.Access, a.change.After.Access)...)
	for _, other := range a.change.Others {
		list = append(list, newsOfAccess(a.subject, Access{Target: a.accounts[other.Account].target()}, other)...)
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
