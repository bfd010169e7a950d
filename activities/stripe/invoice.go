package stripe

import (
	"cmp"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

func (r *reader) invoice(f *fields) *fact.Fact {
	metadata := subscriptionMetadata(f.object)
	seen := &fact.Invoice{
		Status: f.needed("status", f.word("status")),
		Due:    f.amount("amount_due"),
		Paid:   f.amount("amount_paid"),
		// The remainder is negative if more was paid than was due.
		Remaining:    f.whole("amount_remaining"),
		Currency:     f.currency("currency"),
		Reason:       f.word("billing_reason"),
		Attempts:     int(f.count("attempt_count")),
		NextAttempt:  f.time("next_payment_attempt"),
		DueAt:        f.time("due_date"),
		Number:       shown(f.text("number")),
		How:          f.how(),
		Balance:      f.balanceUsed(),
		Subscription: f.invoiceSubscription(),
	}
	if seen.Status == "paid" {
		seen.PaidAt = f.in("status_transitions").time("paid_at")
	}
	if r.subject.EventType == fact.Reconciled {
		seen.CreatedAt = f.time("created")
	}
	seen.Tax = fold.TaxOf(seen.Due, f.whole("total"), f.invoiceTax()) // the customer's balance may have paid a part
	switch r.subject.EventType {
	case "invoice.deleted":
		seen.Status = "deleted"
	case "invoice.created": // no attempt was made
	case "invoice.finalization_failed":
		seen.Stuck = cmp.Or(f.finalizationError(), "unknown")
	case "invoice.payment_failed", "invoice.payment_action_required", "invoice.overdue":
		seen.Failed = true
	default:
		if seen.Status == "draft" {
			seen.Stuck = f.finalizationError()
		}
	}
	if seen.Account = r.metadataAccount(f, "subscription_details.metadata", metadata); seen.Account == "" {
		seen.Account = r.metadataAccount(f, "metadata", f.object.object("metadata"))
	}
	seen.Lines, seen.Partial = r.lines(f, seen.Subscription)
	seen.Plan = r.metadataPlan(f, "subscription_details.metadata", metadata)
	fact := r.fact(f, fact.InvoiceSeen, seen.Status == "paid" || seen.Status == "void" || seen.Status == "deleted")
	f.needed("customer", fact.Customer)
	fact.Invoice = seen
	r.more = r.paymentOf(f, *fact)
	return fact
}

// paymentOf returns a fact that connects a payment to the invoice. Invoices contain their payment until 2025-02: a
// payment intent, or a charge if there is no payment intent.
func (r *reader) paymentOf(f *fields, invoice fact.Fact) []fact.Fact {
	charge := f.link("charge")
	id := cmp.Or(f.link("payment_intent"), charge)
	if id == "" || invoice.Invoice.Paid == 0 {
		return nil
	}
	tie := invoice
	tie.Kind, tie.Object = fact.PaymentSeen, id
	tie.Data = fact.Data{Payment: &fact.Payment{
		Invoice: invoice.Object, Charge: charge, Currency: invoice.Invoice.Currency,
	}}
	return []fact.Fact{tie}
}

// how returns the way in which the money moved: through Stripe or outside of Stripe. Until 2025-02, paid_out_of_band
// contains this. Since then, only some events of an invoice report a payment outside of Stripe.
func (f *fields) how() string {
	switch {
	case f.is("paid_out_of_band") || f.whole("amount_paid_off_stripe") > 0:
		return fact.PaidOutOfBand
	case !f.null("paid_out_of_band"):
		return fact.PaidByCharge
	}
	return ""
}

// balanceUsed returns the part of the invoice that the customer's balance paid. It is negative if the invoice added a
// credit to the balance. In Stripe's balance, a credit is a negative number.
func (f *fields) balanceUsed() int64 {
	if f.null("ending_balance") {
		return 0
	}
	return f.whole("ending_balance") - f.whole("starting_balance")
}

// finalizationError returns the code of the last error at finalization, or "". It omits the message, which can
// contain the customer's name.
func (f *fields) finalizationError() string {
	failed := f.in("last_finalization_error")
	return cmp.Or(failed.word("code"), failed.word("type"))
}

// invoiceTax returns the tax in the invoice's total: tax up to 2025-02, total_taxes since.
func (f *fields) invoiceTax() int64 {
	if !f.null("tax") {
		return f.whole("tax")
	}
	return f.taxes("total_taxes")
}

// taxes returns the sum of a list of taxes, or 0 if it is absent.
func (f *fields) taxes(list string) (sum int64) {
	if f.null(list) {
		return 0
	}
	for _, tax := range f.elements(list) {
		sum += tax.whole("amount")
	}
	return sum
}

// invoiceSubscription returns the invoice's subscription: invoice.subscription up to 2025-02, then
// invoice.parent.subscription_details.subscription, and in both cases the lines. It returns "" if the invoice has no
// subscription: subscription or parent is null, or the parent is a quote. It also returns "" if the lines contain
// several subscriptions, because a manual invoice collects the pending items of all subscriptions of a customer.
func (f *fields) invoiceSubscription() string {
	parent := f.object.object("parent")
	if id := f.link("subscription"); id != "" {
		return id
	}
	details := f.in("parent", "subscription_details")
	if id := details.link("subscription"); id != "" {
		return id
	}
	id, named := f.subscriptionOfLines()
	switch {
	case named:
		return f.id("lines.data[].subscription", id)
	case !f.null("subscription"):
		f.fail("subscription", "neither an ID nor an object with an ID")
	case !f.null("parent") && parent.text("type") != "quote_details":
		f.fail("parent", "has a type without a subscription")
	case !f.has("subscription") && !f.has("parent"):
		f.fail("subscription", "invoice.subscription and invoice.parent.subscription_details.subscription are both absent")
	}
	return ""
}

// subscriptionOfLines returns the subscription of the lines if all of them have the same one. named reports whether any
// line has a subscription.
func (f *fields) subscriptionOfLines() (id string, named bool) {
	lines, _ := f.object.object("lines").objects("data")
	for _, l := range lines {
		switch found := lineSubscription(l); {
		case found == "" || found == id:
		case named:
			return "", true
		default:
			id, named = found, true
		}
	}
	return id, named
}

// subscriptionMetadata returns the subscription's metadata in the invoice.
func subscriptionMetadata(in object) object {
	for _, place := range []object{
		in.object("parent", "subscription_details"),
		in.object("subscription_details"),
		in.object("parent", "subscription_details", "subscription"),
		in.object("subscription"),
	} {
		if found := place.object("metadata"); len(found) > 0 {
			return found
		}
	}
	return nil
}
