package billing

import (
	"cmp"
	"slices"
	"time"
)

// Policy is what configuration makes of facts: the meaning of prices and accounts, and what follows. Facts say nothing
// of it, so that another policy folds the same facts anew.
type Policy struct {
	// Prices says what a price means, by its ID, its lookup key or its product's ID. They are looked up in this order.
	Prices map[string]Price `json:",omitempty"`
	// Accounts maps connected accounts to ours.
	Accounts map[Connected]string `json:",omitempty"`
	// Order lists the plans, lowest first.
	Order []string `json:",omitempty"`
	// Features lists what a plan enables; a plan that is not listed enables nothing. Metadata may name only a plan that
	// is listed, or any where none is.
	Features map[string][]string `json:",omitempty"`
	// Grace is how long a subscription grants after it became past due.
	Grace time.Duration
	// Notice is how long before the end of the grace the customer is told of it, 0 for not at all.
	Notice time.Duration
	// Renewal is how long after a period's end the invoice of the next one may be paid.
	Renewal time.Duration
	// EndAtPeriodEnd lets an ended subscription grant until the end of its paid period.
	EndAtPeriodEnd bool
	// EndOnFullRefund ends what a subscription grants while its newest paid invoice is refunded in full.
	EndOnFullRefund bool
	// HoldOnDispute holds the purchase of a disputed charge until the dispute is decided, EndOnLostDispute while the
	// dispute is lost.
	HoldOnDispute, EndOnLostDispute bool
	// GrantOnPayment grants a higher plan, or more seats, once an invoice for them is paid, and not with the change.
	GrantOnPayment bool
	// Dunning says how long after the first attempt that failed the customer is reminded of an invoice, ascending.
	Dunning []time.Duration `json:",omitempty"`
	// Apart is how long after an attempt that failed the customer is not reminded: that has its own letter.
	Apart time.Duration
	// Settle is how long a paid invoice waits for its subscription's event before a person is asked.
	Settle time.Duration
	// Keep is how long the workspace of an account without access is kept before a person is asked to release it.
	Keep time.Duration
	// LeaveUnknown asks nobody about a price that no mapping knows.
	LeaveUnknown bool `json:",omitempty"`
	// Linked lists the modes whose connected accounts are those in force, beside its own.
	Linked []string `json:"-"`
	// EffectsFrom is when effects began, as [Apply] reads it from the database: nothing is due for what occurred
	// before. Zero for no such time.
	EffectsFrom time.Time `json:"-"`

	// hash is that of [Policy.Sealed].
	hash string
}

// Compare orders two plans, the lower one first. Plans that are not in Order stand below all others, in the order of
// their names, and no plan at all ("") stands below them.
func (p Policy) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(p.Order, a), slices.Index(p.Order, b)), cmp.Compare(a, b))
}

// Connected is a connected account of the provider's.
type Connected struct{ Mode, ID string }

// Price is what a price means to us. It has a plan or features.
type Price struct {
	Plan string `json:",omitempty"`
	// AddOn lists the features that a price without a plan adds to a subscription.
	AddOn []string `json:",omitempty"`
	// For is how long a price that is paid once grants its plan; zero for a price of subscriptions.
	For time.Duration `json:",omitempty"`
	// NoSeats is set for a price whose quantity counts no seats: a platform fee beside the price of a seat.
	NoSeats bool `json:",omitempty"`
	// NotOurs is set for the price of another product.
	NotOurs bool `json:",omitempty"`
}

// meaning returns the meaning of the first of a price's names that is known; zero for none.
func (p Policy) meaning(names ...string) Price {
	for _, name := range names {
		if means, ok := p.Prices[name]; ok && name != "" {
			return means
		}
	}
	return Price{}
}

// plan returns a plan that metadata names, "" for one that there is not.
func (p Policy) plan(named string) string {
	if _, known := p.Features[named]; len(p.Features) > 0 && !known {
		return ""
	}
	return named
}

// account returns our account that the facts' connected account is mapped to, "" for none.
func (p Policy) account(facts []Fact) string {
	if len(facts) == 0 || facts[0].ProviderAccount == "" {
		return ""
	}
	return p.Accounts[Connected{facts[0].Mode, facts[0].ProviderAccount}]
}
