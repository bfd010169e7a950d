package fact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Policy holds the billing rules: which plan a price grants, which account a connected account belongs to, and how long
// access lasts. Facts do not contain the rules, so the state can be computed again from the same facts with other
// rules.
type Policy struct {
	// Prices maps a price to its plan or features. The key is the ID of the price, its lookup key or its product ID;
	// they are looked up in this order.
	Prices map[string]Price `json:",omitempty"`
	// Accounts maps connected accounts of the provider to accounts in pawl.
	Accounts map[Connected]string `json:",omitempty"`
	// Order lists the plans, lowest first.
	Order []string `json:",omitempty"`
	// Features lists the features of each plan. A plan without an entry has no features. If Features is not empty, the
	// metadata of a subscription can select only a plan that Features lists.
	Features map[string][]string `json:",omitempty"`
	// Grace is how long a past due subscription still grants access.
	Grace time.Duration
	// Notice is how long before the end of the grace period the customer receives an email. 0 disables the email.
	Notice time.Duration
	// Renewal is how long after the end of a period the event of the next period may be late.
	Renewal time.Duration
	// EndAtPeriodEnd is set if an ended subscription grants access until the end of its paid period.
	EndAtPeriodEnd bool
	// EndOnFullRefund ends the grant of a subscription while its newest paid invoice is fully refunded.
	EndOnFullRefund bool
	// HoldOnDispute puts the purchase of a disputed charge on hold until the dispute is won or lost. EndOnLostDispute
	// ends the grant of the purchase while the dispute is lost.
	HoldOnDispute, EndOnLostDispute bool
	// GrantOnPayment grants a higher plan or more seats when their invoice is paid, and not already when the
	// subscription changes.
	GrantOnPayment bool
	// Dunning lists the delays of payment reminders after the first failed attempt, ascending.
	Dunning []time.Duration `json:",omitempty"`
	// Apart is the shortest time between a failed payment attempt and a reminder. The failed attempt itself already
	// causes an e-mail.
	Apart time.Duration
	// Settle is how long pawl waits for an event that should follow, such as the subscription event of a paid invoice.
	// After this time, a task opens.
	Settle time.Duration
	// Keep is how long the workspace of an account without access is kept. After this time, a task to release the
	// workspace opens.
	Keep time.Duration
	// LeaveUnknown is set if an unmapped price opens no task.
	LeaveUnknown bool `json:",omitempty"`
	// Linked lists the modes ("live", "test") in which the database adds more connected accounts to Accounts.
	Linked []string `json:"-"`
	// EffectsFrom is when pawl was switched on: earlier facts schedule no actions. EffectsFrom is zero if effects were
	// always on. It is read from the database and is not part of the hash.
	EffectsFrom time.Time `json:"-"`
	// Silent withholds the effects of all facts, even of facts after EffectsFrom.
	Silent bool `json:"-"`
	// Asks is set if the caller can fetch the payments of an invoice. A paid amount without a known payment is then
	// added to Invoice.Unexplained instead of PaidSums until its payments are fetched.
	Asks bool `json:"-"`

	// hash is set by [Policy.Sealed].
	hash string
}

// Compare orders two plans, lowest first. Plans outside of Order are below all others, ordered by name. No plan ("") is
// the lowest.
func (p Policy) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(p.Order, a), slices.Index(p.Order, b)), cmp.Compare(a, b))
}

// Connected identifies a connected account of the provider in one mode.
type Connected struct{ Mode, ID string }

// Price is the entry of a price in the billing rules: the plan or the features that it grants.
type Price struct {
	Plan string `json:",omitempty"`
	// AddOn lists the features that a price without a plan adds to a subscription.
	AddOn []string `json:",omitempty"`
	// For is how long a one-time price grants its plan. It is zero for a subscription price.
	For time.Duration `json:",omitempty"`
	// NoSeats is set for a price with a quantity that is not a number of seats, for example a platform fee.
	NoSeats bool `json:",omitempty"`
	// NotOurs is set if the price belongs to another product of the same Stripe account.
	NotOurs bool `json:",omitempty"`
}

// SellsOnce reports whether any price grants its plan without a subscription.
func (p Policy) SellsOnce() bool {
	for _, means := range p.Prices {
		if means.For > 0 {
			return true
		}
	}
	return false
}

// price returns the entry of the first name that Prices contains, or the zero value.
func (p Policy) price(names ...string) Price {
	for _, name := range names {
		if means, ok := p.Prices[name]; ok && name != "" {
			return means
		}
	}
	return Price{}
}

// plan returns the plan that metadata names, or "" if Features does not list that plan.
func (p Policy) plan(named string) string {
	if _, known := p.Features[named]; len(p.Features) > 0 && !known {
		return ""
	}
	return named
}

// AccountOf returns the account that the connected account of the facts is mapped to. It returns "" if the facts have
// no connected account, or if it is not mapped.
func (p Policy) AccountOf(facts []Fact) string {
	if len(facts) == 0 || facts[0].ProviderAccount == "" {
		return ""
	}
	return p.Accounts[Connected{facts[0].Mode, facts[0].ProviderAccount}]
}

// With returns a copy of the policy that also maps a connected account.
func (p Policy) With(of Connected, account string) Policy {
	accounts := map[Connected]string{}
	maps.Copy(accounts, p.Accounts)
	accounts[of] = account
	p.Accounts = accounts
	return p.Sealed()
}

// Sealed returns the policy with its hash. Apply compares this hash with the hash of the active policy.
func (p Policy) Sealed() Policy {
	hash := sha256.Sum256(p.Canonical())
	p.hash = hex.EncodeToString(hash[:8])
	return p
}

// Hash returns the hash of the canonical form. Equal rules have equal hashes.
func (p Policy) Hash() string {
	if p.hash == "" {
		p = p.Sealed()
	}
	return p.hash
}

// Canonical returns the stored form of a policy. Policies with equal rules have equal bytes.
func (p Policy) Canonical() []byte {
	p.Prices, p.Features = maps.Clone(p.Prices), maps.Clone(p.Features)
	for name, price := range p.Prices {
		price.AddOn = Unique(price.AddOn)
		p.Prices[name] = price
	}
	for plan, features := range p.Features {
		p.Features[plan] = Unique(features)
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Policy has only types that JSON supports
	}
	return data
}

// Stored parses a stored policy. Fields that are not stored are copied from p.
func (p Policy) Stored(hash string, canonical []byte) (Policy, error) {
	stored := Policy{EffectsFrom: p.EffectsFrom, Silent: p.Silent, Asks: p.Asks, Linked: p.Linked, hash: hash}
	err := json.Unmarshal(canonical, &stored)
	return stored, err
}

// MarshalText formats a connected account for the canonical form.
func (c Connected) MarshalText() ([]byte, error) { return []byte(c.Mode + "/" + c.ID), nil }

// UnmarshalText parses the output of MarshalText.
func (c *Connected) UnmarshalText(text []byte) error {
	var found bool
	if c.Mode, c.ID, found = strings.Cut(string(text), "/"); !found {
		return fmt.Errorf("%q is not a connected account", text)
	}
	return nil
}

// Covers reports whether a paid purchase has at least the plan and the seats of the order.
func (p Policy) Covers(paid, order Sale) bool {
	more := p.Compare(order.Plan, paid.Plan)
	return more < 0 || more == 0 && order.Quantity <= paid.Quantity
}
