package stripe

import (
	"slices"
	"time"
)

// Plans says what is sold.
type Plans struct {
	// Prices holds what a price means, by its ID, its lookup key or its product's ID, looked up in this order.
	Prices map[string]Price
	// Named are the plans that there are: a subscription's metadata may name one of them. Any where none is listed.
	Named []string
}

// Price is what a price means to us. It has a plan or features.
type Price struct {
	Plan string
	// AddOn lists the features that a price without a plan adds to a subscription.
	AddOn []string
	// For is how long a price that is paid once grants its plan; zero for a price of subscriptions.
	For time.Duration
}

// price is a price as the items of subscriptions and the lines of invoices carry it.
type price struct {
	id, product, lookupKey string
	metered                bool
}

// readPrice reads a price: price up to 2025-02 and on items, pricing.price_details on lines since, plan of old.
// Since then a line carries only the price's ID, which does not tell its lookup key, nor whether it is metered.
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

// meaning returns what a price is mapped to.
func (r *reader) meaning(p price) Price {
	names := []string{p.id, p.lookupKey, p.product}
	if !r.own() {
		names = []string{p.id, p.product}
	}
	for _, name := range names {
		if m, ok := r.plans.Prices[name]; ok && name != "" {
			return m
		}
	}
	return Price{}
}

// metadataPlan returns the plan that a subscription's metadata names, "" for none and for a connected account's. One that
// there is not counts as none: then the price is one that no mapping knows.
func (r *reader) metadataPlan(f *fields, field string, metadata object) string {
	if !r.own() {
		return ""
	}
	plan := metadata.text("plan")
	if why := Unusable(plan, mostID); why != "" {
		f.failAs(PlanUnusable, field+".plan", why)
		return ""
	}
	if len(r.plans.Named) > 0 && !slices.Contains(r.plans.Named, plan) {
		return ""
	}
	return plan
}
