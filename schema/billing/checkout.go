package billing

import (
	"cmp"
	"slices"
	"time"
)

// Checkout is what the facts about a checkout session fold to.
type Checkout struct {
	ID string
	// Account is ours: Named, or that of the customer, "" where there is neither. See [AccountOf].
	Account string
	// Named is the account that the session names, "" for none.
	Named         string `json:",omitempty"`
	Customer      string `json:",omitempty"`
	Subscription  string `json:",omitempty"`
	Invoice       string `json:",omitempty"`
	PaymentIntent string `json:",omitempty"`
	Mode          string
	// Status is the highest of open < expired < complete, PaymentStatus the highest of unpaid < no_payment_required < paid.
	Status, PaymentStatus string
	Amount                int64
	Currency              string
	Tax                   int64    `json:",omitempty"`
	Plan                  string   `json:",omitempty"`
	Quantity              int64    `json:",omitempty"`
	Prices                []Bought `json:",omitempty"`
	AddOns                []string `json:",omitempty"`
	// For is how long it grants from when it was paid; 0 for not at all.
	For time.Duration `json:",omitempty"`
	// PaidAt is when the first fact showed that it was paid, or that nothing had to be paid; PaidBy is that fact.
	PaidAt time.Time `json:",omitzero"`
	PaidBy Cause     `json:",omitzero"`
	// Refunded is what was paid back of it, RefundedBy the fact that told of the last of that; see [Payment].
	Refunded   int64 `json:",omitempty"`
	RefundedBy Cause `json:",omitzero"`
	// Withheld is set while what it grants is taken back, Held while a hold is on it; LostBy is a subscription's.
	Withheld bool   `json:",omitempty"`
	Held     bool   `json:",omitempty"`
	LostBy   Cause  `json:",omitzero"`
	Because  string `json:",omitempty"`
}

// Sells reports whether the session was for something that is bought once, and that no invoice is made for: it is booked
// and granted by itself.
func (c Checkout) Sells() bool { return c.Mode == "payment" && c.Invoice == "" }

// Paid reports whether it was paid, or nothing had to be paid.
func (c Checkout) Paid() bool { return !c.PaidAt.IsZero() }

// FoldCheckout makes a checkout session of the facts about it. Its Account and what was refunded are left to Apply.
func FoldCheckout(id string, facts []Fact, p Policy) Checkout {
	facts = InOrder(facts)
	c := Checkout{ID: id, Customer: customerOf(facts, nil)}
	var lines []Line
	for _, f := range InOrder(facts, CheckoutSeen) {
		seen := f.Checkout
		c.Named, c.Mode, c.Because = cmp.Or(seen.Account, c.Named), seen.Mode, f.EventID
		c.Subscription, c.Invoice, c.PaymentIntent = cmp.Or(seen.Subscription, c.Subscription), cmp.Or(seen.Invoice, c.Invoice), cmp.Or(seen.PaymentIntent, c.PaymentIntent)
		c.Status = higher([]string{"open", "expired", "complete"}, c.Status, seen.Status)
		c.PaymentStatus = higher([]string{"unpaid", "no_payment_required", "paid"}, c.PaymentStatus, seen.PaymentStatus)
		c.Amount, c.Currency, c.Tax = seen.Amount, seen.Currency, seen.Tax
		if seen.PaymentStatus != "unpaid" && seen.Status == "complete" {
			c.PaidAt, c.PaidBy = cmp.Or(c.PaidAt, f.OccurredAt), cmp.Or(c.PaidBy, causeOf(f))
		}
		switch {
		case len(seen.Lines) > 0:
			lines = seen.Lines
		case seen.Price != "" && lines == nil:
			lines = []Line{{Price: seen.Price, LookupKey: seen.Price, Quantity: 1, Amount: seen.Amount}}
		}
	}
	b := boughtByLines(lines, "", "", p)
	c.Plan, c.Quantity, c.Prices, c.AddOns, c.For = b.plan, b.quantity, b.prices, b.addOns, b.lasts
	c.Named = cmp.Or(p.account(facts), c.Named)
	c.Withheld, c.Held = withheld(facts, c.Prices), OnHold(facts)
	return c
}

// Order returns what a paid session grants by itself, and false where it grants nothing: a subscription or an invoice
// that it made grants instead, or it is refunded in full, taken back or held.
func (c Checkout) Order() (Order, bool) {
	return Order{c.ID, c.Plan, c.Quantity, c.AddOns, c.PaidAt, c.For, c.Because}, c.bought() && !c.Held && !c.paidBack()
}

// bought reports whether something was bought that grants for a time, and that was not taken back.
func (c Checkout) bought() bool { return c.Sells() && c.Paid() && c.For > 0 && !c.Withheld }

// paidBack reports whether all that was paid was refunded.
func (c Checkout) paidBack() bool { return c.Refunded > 0 && c.Refunded >= c.Amount }

// higher returns the one of two values that stands later in order.
func higher(order []string, a, b string) string {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

var writeCheckoutSQL = upsert("checkouts", "account", "payment", "customer", "status", "payment_status", "amount", "currency", "state")
