package billing

import (
	"cmp"
	"slices"
	"time"
)

// Checkout is what the facts about a checkout session fold to.
type Checkout struct {
	// Ref names the payment, "" for none. Its account is Named, or that of the customer, "" where there is neither. See
	// [AccountOf].
	Ref
	// Named is the account that the session names, or that a person has given it to, "" for none.
	Named string `json:",omitempty"`
	// Subscription and Invoice are those that the session made. It does not belong to them.
	Subscription string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	Mode         string
	// Status is the highest of open < expired < complete, PaymentStatus the highest of unpaid < no_payment_required <
	// paid.
	Status, PaymentStatus string
	Amount                int64
	Currency              string
	Tax                   int64 `json:",omitempty"`
	// Sale is that of its lines, or of the price that it names.
	Sale
	// For is how long it grants from when it was paid; 0 for not at all.
	For time.Duration `json:",omitempty"`
	// PaidAt is when the first fact showed that it was paid, or that nothing had to be paid; PaidBy is that fact.
	PaidAt time.Time `json:",omitzero"`
	PaidBy Cause     `json:",omitzero"`
	// Refunded is the amount that was paid back, RefundedBy the fact that told of the last refund; see [Payment].
	Refunded   int64 `json:",omitempty"`
	RefundedBy Cause `json:",omitzero"`
	// Withheld is set while its grant is taken back, Held while it is on hold. LostBy is as a [Subscription]'s.
	Withheld bool  `json:",omitempty"`
	Held     bool  `json:",omitempty"`
	LostBy   Cause `json:",omitzero"`
}

// Sells reports whether the session was for something that is bought once, and that no invoice is made for: it is
// booked and granted by itself.
func (c Checkout) Sells() bool { return c.Mode == "payment" && c.Invoice == "" }

// Paid reports whether it was paid, or nothing had to be paid.
func (c Checkout) Paid() bool { return !c.PaidAt.IsZero() }

// FoldCheckout makes a checkout session of the facts about it. Apply sets its account and its refunds.
func FoldCheckout(id string, facts []Fact, p Policy) *Checkout {
	facts = InOrder(facts)
	c := &Checkout{Ref: Ref{ID: id, Customer: customerOf(facts, nil)}}
	var lines []Line
	for _, f := range InOrder(facts, CheckoutSeen) {
		seen := f.Checkout
		c.Named, c.Mode = cmp.Or(seen.Account, c.Named), seen.Mode
		c.Subscription, c.Invoice, c.Payment = cmp.Or(seen.Subscription, c.Subscription),
			cmp.Or(seen.Invoice, c.Invoice), cmp.Or(seen.PaymentIntent, c.Payment)
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
	c.Sale, c.For = b.Sale, b.lasts
	c.Named = cmp.Or(p.account(facts), c.Named, linkedTo(facts))
	c.Withheld, c.Held = withheld(facts, c.Prices), OnHold(facts)
	return c
}

func foldCheckout(id string, with related) Object {
	if len(with.facts[id]) == 0 {
		return nil
	}
	return FoldCheckout(id, with.facts[id], with.policy)
}

func (*Checkout) kind() kind { return kindCheckout }

// assign also sets the refunds and the holds of disputes, because the payment is folded after the session.
func (c *Checkout) assign(with related) {
	c.Account = with.accountOf(c.Named, c.Customer)
	facts := with.facts[c.ID]
	if len(facts) == 0 {
		return // only its customer's account may have changed
	}
	c.Refunded, c.RefundedBy = with.refunded(func(p *Payment) bool { return p.ID == c.Payment })
	facts = with.withHolds(facts, func(d *Dispute) bool { return d.Payment == c.Payment })
	c.Held, c.LostBy = OnHold(facts), lostBy(facts)
}

// Order returns what a paid session grants by itself. A subscription or an invoice that it made grants instead.
func (c Checkout) Order() Order {
	return Order{
		ID: c.ID, Sale: c.Sale, PaidAt: c.PaidAt, For: c.For,
		sold: c.Sells() && c.Paid() && !c.Withheld, held: c.Held, paidBack: c.Refunded > 0 && c.Refunded >= c.Amount,
		cause: c.PaidBy, refundedBy: c.RefundedBy, lostBy: c.LostBy,
	}
}

func (c *Checkout) grants() []Grant              { return c.Order().grants() }
func (c *Checkout) due(related, time.Time) []Due { return c.Order().due() }
func (c *Checkout) lapsed(at time.Time) lapse    { return c.Order().lapsed(at) }

func (c *Checkout) news(s Subject, before Object) []news {
	was, known := before.(*Checkout)
	if !c.Sells() || !c.Paid() || known && was.Paid() && was.Account != "" {
		return nil
	}
	return []news{{c.Account, "checkout.completed",
		checkoutNews{c.Account, s.Mode, c.ID, c.Plan, c.Amount, c.Currency, s.EventID}}}
}

// checkoutNews is the data of checkout.completed.
type checkoutNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Checkout    string `json:"checkout"`
	Plan        string `json:"plan,omitempty"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency,omitempty"`
	SourceEvent string `json:"source_event"`
}

// higher returns the one of two values that stands later in order.
func higher(order []string, a, b string) string {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}
