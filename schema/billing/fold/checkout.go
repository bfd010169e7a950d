package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Checkout is the state of a checkout session, computed from its facts.
type Checkout struct {
	// Ref contains the payment of the session, if there is one. The account is Named, or else the account of the
	// customer; see [fact.LinkOf].
	Ref
	// Named is the account that the session names or that a person assigned to it. It is empty if the session names no
	// account and no person assigned it.
	Named string `json:",omitempty"`
	// Subscription and Invoice are the objects that the session created. They grant access and are booked instead of
	// the session.
	Subscription string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	Mode         string
	// Status is the highest status that facts show: open < expired < complete. PaymentStatus is the highest payment
	// status: unpaid < no_payment_required < paid.
	Status, PaymentStatus string
	Amount                int64
	Currency              string
	Tax                   int64 `json:",omitempty"`
	// Captures lists the captures of the payment. It is empty unless there are several, which is possible only if the
	// payment was captured after the session was completed.
	Captures []Capture `json:",omitempty"`
	// Sale is the sale of the lines, or of the price in the metadata if there are no lines.
	fact.Sale
	// For is how long the session grants access, counted from its payment. 0 means that it grants nothing.
	For time.Duration `json:",omitempty"`
	// Asks contains the price of the metadata if it is unmapped, which opens a task. It is empty while nothing is paid,
	// without an account, and after the money went back.
	Asks []string `json:",omitempty"`
	// PaidBy is the first fact that shows the session as paid, or as complete without a payment. PaidAt is the time of
	// that fact.
	PaidAt time.Time  `json:",omitzero"`
	PaidBy fact.Cause `json:",omitzero"`
	// Refunded is the refunded amount. RefundedBy is the fact of the last refund.
	Refunded   int64      `json:",omitempty"`
	RefundedBy fact.Cause `json:",omitzero"`
	// Withheld is set after a sink refused the purchase, until a person grants it again. Held is set while the grant is
	// on hold. LostBy is the fact of a lost dispute; see [Subscription].
	Withheld bool       `json:",omitempty"`
	Held     bool       `json:",omitempty"`
	LostBy   fact.Cause `json:",omitzero"`
	// Owed is the money that a withheld session was paid with and that is not paid back yet.
	Owed Money `json:",omitzero"`
}

// Sells reports whether the session is a one-time purchase without an invoice. Such a session has an entry and a grant
// of its own.
func (c Checkout) Sells() bool { return c.Mode == "payment" && c.Invoice == "" }

// Paid reports whether the session was paid or required no payment.
func (c Checkout) Paid() bool { return !c.PaidAt.IsZero() }

// CheckoutOf computes a checkout session from the facts about it. Apply sets the account and the refunds.
func CheckoutOf(id string, facts []fact.Fact, p fact.Policy) *Checkout {
	facts = fact.InOrder(facts)
	c := &Checkout{Ref: Ref{ID: id, Customer: customerOf(facts, nil)}}
	var lines []fact.Line
	var promised string // the price in the metadata
	for _, f := range fact.InOrder(facts, fact.CheckoutSeen) {
		seen := f.Checkout
		promised = cmp.Or(seen.Price, promised)
		c.Named, c.Mode = cmp.Or(seen.Account, c.Named), seen.Mode
		c.Subscription, c.Invoice, c.Payment = cmp.Or(seen.Subscription, c.Subscription),
			cmp.Or(seen.Invoice, c.Invoice), cmp.Or(seen.PaymentIntent, c.Payment)
		c.Status = higher([]string{"open", "expired", "complete"}, c.Status, seen.Status)
		c.PaymentStatus = higher([]string{"unpaid", "no_payment_required", "paid"}, c.PaymentStatus, seen.PaymentStatus)
		c.Amount, c.Currency, c.Tax = seen.Amount, seen.Currency, seen.Tax
		if seen.PaymentStatus != "unpaid" && seen.Status == "complete" {
			c.PaidAt, c.PaidBy = cmp.Or(c.PaidAt, f.OccurredAt), cmp.Or(c.PaidBy, fact.CauseOf(f))
		}
		switch {
		case len(seen.Lines) > 0:
			lines = seen.Lines
		case seen.Price != "" && lines == nil:
			lines = []fact.Line{{Price: seen.Price, LookupKey: seen.Price, Quantity: 1, Amount: seen.Amount}}
		}
	}
	b := fact.PurchaseOf(lines, "", "", p)
	c.Sale, c.For = b.Sale, b.Lasts
	for _, l := range lines { // another line, for example a T-shirt, need not grant anything
		if promised != "" && (l.Price == promised || l.LookupKey == promised) && slices.Contains(b.Asks, l.Price) {
			c.Asks = []string{l.Price}
		}
	}
	c.Named = cmp.Or(p.AccountOf(facts), c.Named, fact.LinkedTo(facts))
	c.Withheld, c.Held = fact.TookBack(facts, c.Prices), fact.OnHold(facts)
	return c
}

func foldCheckout(id string, with Related) Object {
	if len(with.Facts[id]) == 0 {
		return nil
	}
	c := CheckoutOf(id, with.Facts[id], with.Policy)
	c.capture(PaymentOf(c.Payment, with.Facts[c.Payment], nil))
	var before Checkout
	if was := Find[*Checkout](with.Objects, id); was != nil && was.Paid() {
		before = *was
	}
	if len(c.Captures) > 0 {
		c.Captures = capturesSince(before.Amount, before.PaidAt, before.Captures, c.Captures)
	}
	return c
}

// capture marks a complete session as paid if its payment was captured later, because Stripe sends no event of the
// session in this case. It reduces the amount and the tax to the captured part of the payment.
func (c *Checkout) capture(p *Payment) {
	if c.Paid() || c.Status != "complete" || p.Status != "succeeded" {
		return
	}
	c.PaymentStatus, c.PaidAt, c.PaidBy = "paid", p.SucceededAt, p.SucceededBy
	for _, each := range p.Captures {
		c.Captures = withCapture(c.Captures, Capture{min(each.Sum, c.Amount), each.At})
	}
	if p.Amount < c.Amount {
		c.Amount, c.Tax = p.Amount, TaxOf(p.Amount, c.Amount, c.Tax)
	}
}

// Kind implements [Object].
func (*Checkout) Kind() Kind { return KindCheckout }

// Assign sets the account. It also sets the refunds and the holds of disputes, because the payment is computed after
// the session.
func (c *Checkout) Assign(with Related) {
	c.Account = with.AccountOf(c.Named, c.Customer)
	facts := with.Facts[c.ID]
	if len(facts) == 0 {
		return // when only the account of the customer may have changed
	}
	c.Refunded, c.RefundedBy = with.refunded(func(p *Payment) bool { return p.ID == c.Payment })
	disputed := func(d *Dispute) bool { return d.Payment == c.Payment }
	facts = with.withHolds(facts, disputed)
	c.Held, c.LostBy = fact.OnHold(facts), lostBy(facts)
	if c.Withheld {
		c.Owed = with.left(c.Amount-c.Refunded, c.Currency, disputed)
	}
	if c.Account == "" || !c.Sells() || !c.Paid() || c.Withheld || c.Order().paidBack || c.LostBy != (fact.Cause{}) ||
		with.Policy.LeaveUnknown {
		c.Asks = nil
	}
}

// Tasks returns the task to refund or to regrant a withheld session.
func (c *Checkout) Tasks() []Task {
	if !c.Withheld || !c.Sells() {
		return nil
	}
	return correction(c.Ref, c.Owed, c.Amount > 0 && c.Owed == Money{}, "The order "+c.ID+" is withheld")
}

// Order returns the order of a paid session. It is empty if the session created a subscription or an invoice, because
// that object grants access instead.
func (c Checkout) Order() Order {
	return Order{
		ID: c.ID, Sale: c.Sale, PaidAt: c.PaidAt, For: c.For,
		sold: c.Sells() && c.Paid() && !c.Withheld, held: c.Held, paidBack: c.Refunded > 0 && c.Refunded >= c.Amount,
		cause: c.PaidBy, refundedBy: c.RefundedBy, lostBy: c.LostBy,
	}
}

// Grants implements [Object].
func (c *Checkout) Grants() []Grant { return c.Order().Grants() }

// Scheduled implements [Object].
func (c *Checkout) Scheduled(Related, time.Time) []Due { return c.Order().Scheduled() }

// Lapsed implements [Object].
func (c *Checkout) Lapsed(at time.Time) Lapse { return c.Order().Lapsed(at) }

// News implements [Object].
func (c *Checkout) News(s fact.Subject, before Object) []News {
	was, known := before.(*Checkout)
	if !c.Sells() || !c.Paid() || known && was.Paid() && was.Account != "" {
		return nil
	}
	return []News{{c.Account, "billing.checkout.completed",
		checkoutNews{c.Account, s.Mode, c.ID, c.Plan, c.Amount, c.Currency, s.EventID}}}
}

// checkoutNews is the data of billing.checkout.completed.
type checkoutNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Checkout    string `json:"checkout"`
	Plan        string `json:"plan,omitempty"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency,omitempty"`
	SourceEvent string `json:"source_event"`
}

// higher returns the value of a and b that order lists later.
func higher(order []string, a, b string) string {
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}
