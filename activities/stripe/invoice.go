package stripe

import (
	"cmp"

	"github.com/pawlhq/pawl/schema/billing"
)

func (r *reader) invoice(f *fields) *billing.Fact {
	metadata := subscriptionMetadata(f.object)
	seen := &billing.InvoiceFact{
		Status: f.needed("status", f.word("status")),
		Due:    f.amount("amount_due"),
		Paid:   f.amount("amount_paid"),
		// The remainder is negative where more was paid than was due.
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
	seen.Tax = billing.TaxOf(seen.Due, f.whole("total"), f.invoiceTax()) // the customer's balance may have paid a part
	switch r.subject.EventType {
	case "invoice.deleted":
		seen.Status = "deleted"
	case "invoice.created": // nothing was tried with it
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
	fact := r.fact(f, billing.InvoiceSeen, seen.Status == "paid" || seen.Status == "void" || seen.Status == "deleted")
	f.needed("customer", fact.Customer)
	fact.Invoice = seen
	r.more = r.paymentOf(f, *fact)
	return fact
}

// paymentOf reads what has paid the invoice, which it names up to 2025-02: the fact is about the payment intent, or the
// charge where it has none, and only ties it to the invoice.
func (r *reader) paymentOf(f *fields, invoice billing.Fact) []billing.Fact {
	charge := f.link("charge")
	id := cmp.Or(f.link("payment_intent"), charge)
	if id == "" || invoice.Invoice.Paid == 0 {
		return nil
	}
	tie := invoice
	tie.Kind, tie.Object = billing.PaymentSeen, id
	tie.Data = billing.Data{Payment: &billing.PaymentFact{
		Invoice: invoice.Object, Charge: charge, Currency: invoice.Invoice.Currency,
	}}
	return []billing.Fact{tie}
}

// how says whether the money went through Stripe: up to 2025-02 paid_out_of_band tells. Since then only what was
// paid outside can be told from the invoice, and that not in every event.
func (f *fields) how() string {
	switch {
	case f.is("paid_out_of_band") || f.whole("amount_paid_off_stripe") > 0:
		return billing.PaidOutOfBand
	case !f.null("paid_out_of_band"):
		return billing.PaidByCharge
	}
	return ""
}

// balanceUsed returns the balance's part in paying the invoice, negative where the invoice added to the balance. A
// credit is negative in Stripe's balance.
func (f *fields) balanceUsed() int64 {
	if f.null("ending_balance") {
		return 0
	}
	return f.whole("ending_balance") - f.whole("starting_balance")
}

// finalizationError returns the code of the error that the last attempt to finalize the invoice met, "" for nothing.
// Its message can name the customer, and is left out.
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

// taxes returns the sum of a list of taxes, 0 where it is absent.
func (f *fields) taxes(list string) (sum int64) {
	if f.null(list) {
		return 0
	}
	for _, tax := range f.elements(list) {
		sum += tax.whole("amount")
	}
	return sum
}

// invoiceSubscription finds the invoice's subscription: invoice.subscription up to 2025-02, then
// invoice.parent.subscription_details.subscription, and on lines in both. "" means that the payload says there is
// none (subscription or parent is null, or the parent is a quote), or that the lines name several: an invoice that is
// made by hand collects the pending items of all of a customer's subscriptions.
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
		return f.usable("lines.data[].subscription", id, mostID)
	case !f.null("subscription"):
		f.fail("subscription", "neither an ID nor an object that has one")
	case !f.null("parent") && parent.text("type") != "quote_details":
		f.fail("parent", "of a type that tells no subscription")
	case !f.has("subscription") && !f.has("parent"):
		f.fail("subscription", "neither invoice.subscription nor invoice.parent.subscription_details.subscription is there")
	}
	return ""
}

// subscriptionOfLines finds the one subscription that the lines name; named reports whether they name any.
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

// subscriptionMetadata returns the subscription's metadata as the invoice carries it.
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
