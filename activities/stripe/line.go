package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

// placesOf returns the objects that may contain a line's references, such as its subscription: until 2025-02 the line
// itself, since then its parent.
func placesOf(l object) []object {
	parent := l.object("parent")
	return []object{l, parent.object("subscription_item_details"), parent.object("invoice_item_details")}
}

// lineSubscription returns a line's subscription, or "".
func lineSubscription(l object) string {
	for _, place := range placesOf(l) {
		if id := place.ref("subscription"); id != "" {
			return id
		}
	}
	return ""
}

// lines returns the invoice's lines, and whether the payload contains only the first of them.
func (r *reader) lines(f *fields, subscription string) (lines []fact.Line, partial bool) {
	list := f.in("lines")
	for _, in := range list.elements("data") {
		lines = append(lines, r.line(in, subscription))
	}
	return lines, list.is("has_more")
}

func (r *reader) line(f *fields, subscription string) fact.Line {
	p := r.price(f)
	period := f.in("period")
	line := fact.Line{
		Subscription: f.id("subscription", lineSubscription(f.object)),
		Price:        p.id,
		LookupKey:    p.lookupKey,
		Product:      p.product,
		Quantity:     f.count("quantity"),
		None:         f.none(),
		Amount:       f.whole("amount"),
		PeriodStart:  period.time("start"),
		PeriodEnd:    period.time("end"),
		Metered:      p.metered,
	}
	for _, place := range placesOf(f.object) {
		line.Proration = line.Proration || place.is("proration")
		// A credit contains the lines that it reverses ("for a credit proration, the original debit line items"). The
		// amount of a line does not show whether the line is a credit, because the credit of a free item is 0.
		line.Credit = line.Credit || len(place.object("proration_details", "credited_items")) > 0
	}
	line.Credit = line.Credit || line.Amount < 0
	if line.Subscription == "" && isOwn(f.object) {
		line.Subscription = subscription // a line of the subscription without a reference to it
	}
	return line
}

// isOwn reports whether a line belongs to the subscription itself and was not added by hand: type up to 2025-02,
// parent since.
func isOwn(l object) bool {
	parent := l.object("parent")
	return l.text("type") == "subscription" || len(parent.object("subscription_item_details")) > 0 &&
		parent.text("type") != "invoice_item_details"
}
