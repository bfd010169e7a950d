package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

func (r *reader) checkout(f *fields) *fact.Fact {
	details := f.in("total_details")
	seen := &fact.Checkout{
		Mode:          f.needed("mode", f.word("mode")),
		Status:        f.word("status"),
		PaymentStatus: f.needed("payment_status", f.word("payment_status")),
		Subscription:  f.link("subscription"),
		Invoice:       f.link("invoice"),
		PaymentIntent: f.link("payment_intent"),
		Amount:        f.count("amount_total"),
		Tax:           details.count("amount_tax"),
	}
	if !f.null("currency") || seen.Amount != 0 { // a session in mode setup has no currency
		seen.Currency = f.currency("currency")
	}
	seen.Lines = r.sessionLines(f)
	if r.own() {
		seen.Price = f.usable("metadata.price", f.object.object("metadata").text("price"), mostPrice)
		if seen.Account = f.account("client_reference_id", f.text("client_reference_id")); seen.Account == "" {
			seen.Account = r.metadataAccount(f, "metadata", f.object.object("metadata"))
		}
	}
	ended := seen.Status == "expired" || seen.PaymentStatus == "paid" || seen.PaymentStatus == "no_payment_required" ||
		r.subject.EventType == "checkout.session.async_payment_failed"
	fact := r.fact(f, fact.CheckoutSeen, ended)
	fact.Checkout = seen
	return fact
}

// sessionLines returns the lines of a session. Events do not contain them, but a fetched session can.
func (r *reader) sessionLines(f *fields) (lines []fact.Line) {
	if f.null("line_items") {
		return nil
	}
	list := f.in("line_items")
	for _, in := range list.elements("data") {
		p := r.price(in)
		lines = append(lines, fact.Line{
			Price: p.id, LookupKey: p.lookupKey, Product: p.product, Quantity: in.count("quantity"),
			Amount: in.count("amount_total"),
		})
	}
	return lines
}
