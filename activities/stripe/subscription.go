package stripe

import (
	"cmp"
	"slices"

	"github.com/pawlhq/pawl/schema/billing"
)

func (r *reader) subscription(f *fields) *billing.Fact {
	now := r.subscriptionSeen(f)
	ended := now.Status == "canceled" || now.Status == "incomplete_expired" ||
		r.subject.EventType == "customer.subscription.deleted"
	fact := r.fact(f, billing.SubscriptionSeen, ended)
	f.needed("customer", fact.Customer)
	if len(r.previous) > 0 {
		// What it was only helps to put two changes of one second in their order. Where it cannot be read, it is as
		// if the event did not say: the change that mends metadata must not fail by what it mends.
		was := fieldsOf(f.overlay(r.previous), f.name)
		if before := r.subscriptionSeen(was); *was.err == nil {
			now.Before = before
		}
	}
	fact.Subscription = now
	return fact
}

func (r *reader) subscriptionSeen(f *fields) *billing.SubscriptionFact {
	seen := &billing.SubscriptionFact{
		Status:            f.needed("status", f.word("status")),
		Items:             r.items(f),
		Start:             f.time("start_date"),
		TrialEnd:          f.time("trial_end"),
		CancelAt:          f.time("cancel_at"),
		CancelAtPeriodEnd: f.is("cancel_at_period_end"),
		CanceledAt:        f.time("canceled_at"),
		EndedAt:           f.time("ended_at"),
		CollectionPaused:  !f.null("pause_collection"),
		CollectionMethod:  f.word("collection_method"),
		MissingPayment:    f.missingPayment(),
		PaymentMethod:     f.paymentMethod(),
	}
	metadata := f.object.object("metadata")
	seen.Account = r.metadataAccount(f, "metadata", metadata)
	seen.Plan = r.metadataPlan(f, "metadata", metadata)
	return seen
}

// missingPayment returns what Stripe does at the end of a trial without a payment method, "" where the subscription
// goes on.
func (f *fields) missingPayment() string {
	switch does := f.object.object("trial_settings", "end_behavior").text("missing_payment_method"); does {
	case "cancel", "pause":
		return does
	}
	return ""
}

// paymentMethod reports whether the subscription has a payment method of its own, or its customer one for invoices
// where the object carries the customer. No event does: of a customer it carries the ID.
func (f *fields) paymentMethod() bool {
	customer := f.object.object("customer")
	return !f.null("default_payment_method") || !f.null("default_source") ||
		customer.text("default_source") != "" || customer.object("invoice_settings").ref("default_payment_method") != ""
}

// items returns the subscription's items, sorted by ID: two snapshots of the same items are equal.
func (r *reader) items(f *fields) []billing.Item {
	list := f.in("items")
	if list.is("has_more") {
		list.failAs(ItemsIncomplete, "has_more", "the event carries only the first of the subscription's items, which do not tell its plan for sure")
	}
	var items []billing.Item
	for _, in := range list.elements("data") {
		p := r.price(in)
		item := billing.Item{
			ID:          in.word("id"),
			Price:       in.needed("price", p.id),
			LookupKey:   p.lookupKey,
			Product:     p.product,
			Quantity:    in.count("quantity"),
			None:        !p.metered && in.none(),
			Metered:     p.metered,
			PeriodStart: in.time("current_period_start"),
			PeriodEnd:   in.time("current_period_end"),
		}
		if item.PeriodEnd.IsZero() { // up to 2025-02 the subscription has one period for all of its items
			item.PeriodStart, item.PeriodEnd = f.time("current_period_start"), f.time("current_period_end")
		}
		items = append(items, item)
	}
	slices.SortStableFunc(items,
		func(a, b billing.Item) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Price, b.Price)) })
	return items
}
