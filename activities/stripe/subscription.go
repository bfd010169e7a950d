package stripe

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func (r *reader) subscription(f *fields) *fact.Fact {
	now := r.subscriptionSeen(f)
	ended := now.Status == "canceled" || now.Status == "incomplete_expired" ||
		r.subject.EventType == "customer.subscription.deleted"
	fact := r.fact(f, fact.SubscriptionSeen, ended)
	f.needed("customer", fact.Customer)
	if len(r.previous) > 0 {
		// The earlier state only helps to order two changes within one second. If it cannot be parsed, ignore it.
		// Otherwise a change that corrects wrong metadata would fail because of the wrong metadata.
		was := fieldsOf(f.overlay(r.previous), f.name)
		if before := r.subscriptionSeen(was); *was.err == nil {
			now.Before = before
		}
	}
	fact.Subscription = now
	return fact
}

func (r *reader) subscriptionSeen(f *fields) *fact.Subscription {
	items := f.in("items")
	seen := &fact.Subscription{
		Status:            f.needed("status", f.word("status")),
		Items:             r.items(f),
		Partial:           items.is("has_more"),
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

// missingPayment returns the action of Stripe at the end of a trial without a payment method, or "" if the
// subscription continues.
func (f *fields) missingPayment() string {
	switch does := f.object.object("trial_settings", "end_behavior").text("missing_payment_method"); does {
	case "cancel", "pause":
		return does
	}
	return ""
}

// paymentMethod reports whether the subscription has a payment method, or whether its customer has a default for
// invoices. Events contain only the ID of the customer, so the second case needs a fetched object.
func (f *fields) paymentMethod() bool {
	customer := f.object.object("customer")
	return !f.null("default_payment_method") || !f.null("default_source") ||
		customer.text("default_source") != "" || customer.object("invoice_settings").ref("default_payment_method") != ""
}

// items returns the subscription's items, sorted by ID, so that two snapshots of the same items are equal.
func (r *reader) items(f *fields) []fact.Item {
	list := f.in("items")
	var items []fact.Item
	for _, in := range list.elements("data") {
		p := r.price(in)
		item := fact.Item{
			ID:          in.link("id"),
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
	slices.SortStableFunc(items, fact.CompareItems)
	return items
}
