package stripe

// price is a price as the items of subscriptions and the lines of invoices carry it.
type price struct {
	id, product, lookupKey string
	metered                bool
}

// price reads the price of an item or a line: price up to 2025-02 and on items, pricing.price_details on lines since,
// plan of old. Since then a line carries only the price's ID, which does not tell its lookup key, nor whether it is
// metered. A connected account could give its prices any lookup key: it is left out.
func (r *reader) price(f *fields) price {
	p := readPrice(f.object)
	p.id, p.product = f.usable("price", p.id, mostPrice), f.usable("price.product", p.product, mostPrice)
	if p.lookupKey = f.usable("price.lookup_key", p.lookupKey, mostPrice); !r.own() {
		p.lookupKey = ""
	}
	return p
}

func readPrice(o object) price {
	in, name := o, "price"
	details := o.object("pricing", "price_details")
	switch {
	case !o.null("price"):
	case len(details) > 0:
		in = details
	case !o.null("plan"):
		name = "plan"
	}
	inner := in.object(name)
	p := price{id: in.ref(name), product: inner.ref("product"), lookupKey: inner.text("lookup_key")}
	if p.product == "" {
		p.product = details.ref("product")
	}
	p.metered = inner.text("usage_type") == "metered" || inner.object("recurring").text("usage_type") == "metered"
	return p
}

// metadataPlan returns the plan that a subscription's metadata names, "" for none and for a connected account's.
func (r *reader) metadataPlan(f *fields, field string, metadata object) string {
	if !r.own() {
		return ""
	}
	plan := metadata.text("plan")
	if why := Unusable(plan, mostID); why != "" {
		f.failAs(PlanUnusable, field+".plan", why)
		return ""
	}
	return plan
}
