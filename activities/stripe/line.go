package stripe

import "github.com/pawlhq/pawl/schema/billing"

// placesOf are where a line names its subscription, say: on the line up to 2025-02, since then under its parent,
// which is a subscription item or an invoice item.
func placesOf(l object) []object {
	parent := l.object("parent")
	return []object{l, parent.object("subscription_item_details"), parent.object("invoice_item_details")}
}

// lineSubscription finds a line's subscription. "" is an item of no subscription.
func lineSubscription(l object) string {
	for _, place := range placesOf(l) {
		if id := place.ref("subscription"); id != "" {
			return id
		}
	}
	return ""
}

// lines returns the invoice's lines, and whether the payload carries only the first of them.
func (r *reader) lines(f *fields, subscription string) (lines []billing.Line, partial bool) {
	list := f.in("lines")
	for _, in := range list.elements("data") {
		lines = append(lines, r.line(in, subscription))
	}
	return lines, list.is("has_more")
}

func (r *reader) line(f *fields, subscription string) billing.Line {
	p := r.price(f)
	period := f.in("period")
	line := billing.Line{
		Subscription: f.usable("subscription", lineSubscription(f.object), mostID),
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
		// A credit names the lines that it takes back ("for a credit proration, the original debit line items"). What
		// was free is taken back for nothing, so that the amount alone does not tell.
		line.Credit = line.Credit || len(place.object("proration_details", "credited_items")) > 0
	}
	line.Credit = line.Credit || line.Amount < 0
	if line.Subscription == "" && isOwn(f.object) {
		line.Subscription = subscription // a line of the subscription that does not name it
	}
	return line
}

// isOwn reports whether a line is the subscription's own, and not an item that a person added: type up to 2025-02,
// parent since.
func isOwn(l object) bool {
	parent := l.object("parent")
	return l.text("type") == "subscription" || len(parent.object("subscription_item_details")) > 0 &&
		parent.text("type") != "invoice_item_details"
}
