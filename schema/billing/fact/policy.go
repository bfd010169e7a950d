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

// Policy holds the billing rules: the meaning of prices and accounts, and the rules that follow. Facts do not contain
// rules, so the same facts can be folded again with other rules.
type Policy struct {
	// Prices maps a price by its ID, its lookup key or its product ID. The lookup uses this order.
	Prices map[string]Price `json:",omitempty"`
	// Accounts maps connected accounts to our accounts.
	Accounts map[Connected]string `json:",omitempty"`
	// Order lists the plans, lowest first.
	Order []string `json:",omitempty"`
	// Features lists the features of each plan. A plan without an entry has no features. Metadata may name only a plan
	// in Features, or any plan if Features is empty.
	Features map[string][]string `json:",omitempty"`
	// Grace is how long a past due subscription still grants.
	Grace time.Duration
	// Notice is how long before the end of the grace period the customer receives an email. 0 disables the email.
	Notice time.Duration
	// Renewal is how long after the end of a period the invoice of the next period may still be paid.
	Renewal time.Duration
	// EndAtPeriodEnd keeps the grant of an ended subscription until the end of its paid period.
	EndAtPeriodEnd bool
	// EndOnFullRefund ends the grant of a subscription while its newest paid invoice is fully refunded.
	EndOnFullRefund bool
	// HoldOnDispute puts the purchase of a disputed charge on hold until the dispute is decided. EndOnLostDispute ends
	// it while the dispute is lost.
	HoldOnDispute, EndOnLostDispute bool
	// GrantOnPayment grants a higher plan or more seats when an invoice for them is paid, instead of with the change.
	GrantOnPayment bool
	// Dunning lists the delays of payment reminders after the first failed attempt, ascending.
	Dunning []time.Duration `json:",omitempty"`
	// Apart is the shortest time between a failed attempt and a reminder. The failed attempt itself sends an email.
	Apart time.Duration
	// Settle is how long a paid invoice waits for the event of its subscription before a task opens.
	Settle time.Duration
	// Keep is how long the workspace of an account without access is kept before a task to release it opens.
	Keep time.Duration
	// LeaveUnknown opens no task for an unmapped price.
	LeaveUnknown bool `json:",omitempty"`
	// Linked lists the modes that also use the connected accounts in the database.
	Linked []string `json:"-"`
	// EffectsFrom is the start of effects: earlier facts schedule nothing. It is zero if effects were always on. It
	// comes from the database and is not part of the hash.
	EffectsFrom time.Time `json:"-"`
	// Silent withholds the effects of all facts, also of facts that occurred after EffectsFrom.
	Silent bool `json:"-"`
	// Asks is set if the caller can fetch the payments of an invoice. An amount that only the invoice reports is then
	// not part of PaidSums, but of Untold.
	Asks bool `json:"-"`

	// hash is set by [Policy.Sealed].
	hash string
}

// Compare orders two plans, lowest first. Plans outside of Order are below all others, ordered by name. No plan ("") is
// the lowest.
func (p Policy) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(p.Order, a), slices.Index(p.Order, b)), cmp.Compare(a, b))
}

// Connected identifies a connected account of the provider.
type Connected struct{ Mode, ID string }

// Price is the meaning of a price. It has a plan or features.
type Price struct {
	Plan string `json:",omitempty"`
	// AddOn lists the features that a price without a plan adds to a subscription.
	AddOn []string `json:",omitempty"`
	// For is how long a one-time price grants its plan. It is zero for a subscription price.
	For time.Duration `json:",omitempty"`
	// NoSeats is set for a price with a quantity that does not count seats, for example a platform fee.
	NoSeats bool `json:",omitempty"`
	// NotOurs is set for the price of another product.
	NotOurs bool `json:",omitempty"`
}

// SellsOnce reports whether a price grants its plan without a subscription.
func (p Policy) SellsOnce() bool {
	for _, means := range p.Prices {
		if means.For > 0 {
			return true
		}
	}
	return false
}

// meaning returns the meaning of the first known name of a price, or the zero value.
func (p Policy) meaning(names ...string) Price {
	for _, name := range names {
		if means, ok := p.Prices[name]; ok && name != "" {
			return means
		}
	}
	return Price{}
}

// plan returns the plan in metadata, or "" if Features does not allow it.
func (p Policy) plan(named string) string {
	if _, known := p.Features[named]; len(p.Features) > 0 && !known {
		return ""
	}
	return named
}

// AccountOf returns the account that the connected account of the facts is mapped to, or "".
func (p Policy) AccountOf(facts []Fact) string {
	if len(facts) == 0 || facts[0].ProviderAccount == "" {
		return ""
	}
	return p.Accounts[Connected{facts[0].Mode, facts[0].ProviderAccount}]
}

// With returns the policy with one more mapped connected account.
func (p Policy) With(of Connected, account string) Policy {
	accounts := map[Connected]string{}
	maps.Copy(accounts, p.Accounts)
	accounts[of] = account
	p.Accounts = accounts
	return p.Sealed()
}

// Sealed returns the policy with its hash. A fold compares it with the hash of the active policy.
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

// Canonical returns the stored form of a policy. Equal rules have the same bytes.
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

// Stored parses a stored policy. Fields that are not stored come from p.
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
		return fmt.Errorf("%q names no connected account", text)
	}
	return nil
}

// Covers reports whether a paid purchase has at least the plan and the seats of an order.
func (p Policy) Covers(paid, order Sale) bool {
	more := p.Compare(order.Plan, paid.Plan)
	return more < 0 || more == 0 && order.Quantity <= paid.Quantity
}
