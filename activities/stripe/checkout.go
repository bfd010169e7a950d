package stripe

import "github.com/pawlhq/pawl/schema/billing"

func (r *reader) checkout(f *fields) *billing.Fact {
	details := f.in(f.object.object("total_details"), "total_details")
	seen := &billing.CheckoutFact{
		Mode:          f.needed("mode", f.word("mode")),
		Status:        f.word("status"),
		PaymentStatus: f.needed("payment_status", f.word("payment_status")),
		Subscription:  f.link("subscription"),
		Invoice:       f.link("invoice"),
		PaymentIntent: f.link("payment_intent"),
		Amount:        f.count("amount_total"),
		Tax:           details.count("amount_tax"),
	}
	f.keep(details)
	if !f.null("currency") || seen.Amount != 0 { // a session in mode setup has none
		seen.Currency = f.currency("currency")
	}
	if r.own() {
		if seen.Account = f.account("client_reference_id", f.text("client_reference_id")); seen.Account == "" {
			seen.Account = r.metadataAccount(f, "metadata", f.object.object("metadata"))
		}
	}
	ended := seen.Status == "expired" || seen.PaymentStatus == "paid" || seen.PaymentStatus == "no_payment_required" ||
		r.subject.EventType == "checkout.session.async_payment_failed"
	fact := r.fact(f, billing.CheckoutSeen, ended)
	fact.Checkout = seen
	return fact
}
