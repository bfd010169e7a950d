package billing

import (
	"slices"
	"time"
)

// LacksLines reports whether the fact shows a paid invoice without all of its lines. The purchase is then not known
// for sure.
func (f Fact) LacksLines() bool {
	return f.Invoice != nil && f.Invoice.Partial && f.Invoice.Status == "paid"
}

// LacksRefunds reports whether the fact shows a charge that alone tells of its refunds, and not of each.
func (f Fact) LacksRefunds() bool { return f.Payment != nil && f.Payment.ToldAlone }

// AsksPayment reports whether an invoice was paid, and nothing tells by what.
func (c Change) AsksPayment() bool {
	i := c.After.Invoice
	return i != nil && i.paid() && i.Paid > 0 && i.How == ""
}

// AsksInvoice reports whether money of a payment intent has moved, and nothing tells which invoice it has paid. A
// payment in a one-off checkout session has no invoice.
func (c Change) AsksInvoice() bool {
	p := c.After.Payment
	if p == nil || p.Invoice != "" || p.Purchase != "" || c.After.Checkout != nil || p.Charge == p.ID {
		return false
	}
	intent := p.Charge != "" && p.Refunded > 0
	for _, r := range c.After.Refunds {
		intent = intent || r.Payment == p.ID && r.Charge != p.ID
	}
	for _, d := range c.After.Disputes {
		intent = intent || d.Payment == p.ID && d.Charge != p.ID
	}
	return intent
}

// Decided returns the change from before an event to after the provider's answer. The answer fills in what the
// event's own facts had left open.
func (c Change) Decided(by Change) Change {
	known, is := by.After, &c.After
	if known.Subscription != nil {
		is.Subscription = known.Subscription
	}
	if known.Access.Account != "" {
		is.Access = known.Access
	}
	if len(by.Others) > 0 {
		c.Others = by.Others
	}
	is.Refunds = Replaced(is.Refunds, known.Refunds...)
	is.Disputes = Replaced(is.Disputes, known.Disputes...)
	is.Credits = Replaced(is.Credits, known.Credits...)
	is.Warnings = Replaced(is.Warnings, known.Warnings...)
	if known.Invoice != nil && is.Invoice != nil {
		is.Invoice = known.Invoice
	}
	if p := known.Payment; p != nil {
		c.After = c.After.paidBy(*p)
	}
	return c
}

// paidBy gives what a payment was refunded or disputed by to the payment's owner. Another event may have had the answer
// first, and told of it: then nothing of it is new to the answer of this one.
func (s State) paidBy(p Payment) State {
	s.Payment = &p
	s.Refunds, s.Disputes, s.Warnings = slices.Clone(s.Refunds), slices.Clone(s.Disputes), slices.Clone(s.Warnings)
	take := func(r *Ref) {
		if r.Payment == p.ID {
			r.paidBy(&p)
		}
	}
	for n := range s.Refunds {
		take(&s.Refunds[n].Ref)
	}
	for n := range s.Disputes {
		take(&s.Disputes[n].Ref)
	}
	for n := range s.Warnings {
		take(&s.Warnings[n].Ref)
	}
	return s
}

// Over reports whether the snapshot is of a subscription that has ended for good.
func (s *SubscriptionFact) Over() bool { return terminal(s.Status) }

// catchesUp is how long after a change an answer may come from a copy of the provider's data that does not have it yet.
const catchesUp = time.Minute

// Behind reports whether a fetched snapshot is older than the known facts. An invoice is older if its status is
// lower. A subscription is older if the snapshot tells nothing from after the newest second. It is also older if it
// shows a state from before that second, or one that a change of that second left and no change reached. The provider
// then answered too early, or from a copy that has not caught up. Once [catchesUp] is over, a subscription that shows
// an earlier state has come back to it, and the event that says so is late, or lost.
func Behind(fetched Fact, known []Fact) bool {
	switch {
	case fetched.Invoice != nil:
		return slices.ContainsFunc(InOrder(known, InvoiceSeen),
			func(f Fact) bool { return height(f) > height(fetched) })
	case fetched.Subscription == nil:
		return false
	}
	snapshots := InOrder(known, SubscriptionSeen)
	if len(snapshots) == 0 {
		return false
	}
	newest, left := snapshots[len(snapshots)-1].OccurredAt, false
	switch {
	case !fetched.OccurredAt.After(newest):
		return true
	case fetched.OccurredAt.Sub(newest) > catchesUp:
		return false
	}
	for _, f := range snapshots {
		s := f.Subscription
		if f.OccurredAt.Equal(newest) {
			if s.same(fetched.Subscription) {
				return false
			}
			s = s.Before
		}
		left = left || s != nil && s.same(fetched.Subscription)
	}
	return left
}
