package stripe

// price is the price of a subscription item or an invoice line.
type price struct {
	id, product, lookupKey string
	metered                bool
}

// price parses the price of an item or a line: the field price on items, and on lines up to 2025-02;
// pricing.price_details on lines since then; plan in old versions. Since then a line contains only the ID of the price,
// without its lookup key and without usage_type. price ignores the lookup keys of a connected account, because that
// account could give its prices any lookup key.
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

// metadataPlan returns the plan in a subscription's metadata, or "". It ignores the metadata of connected accounts.
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
