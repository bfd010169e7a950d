package fold

import "slices"

// AsksPayment reports whether an invoice has a paid amount and no fact about its payment.
func (c Change) AsksPayment() bool {
	i := c.After.Invoice
	return i != nil && (i.Untold > 0 || i.IsPaid() && i.Paid > 0 && i.How == "")
}

// AsksInvoice reports whether the money of a payment intent has moved and its invoice is unknown. A payment in a
// one-off checkout session has no invoice.
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

// Decided returns the change from before an event to after the fetched facts. The fetched facts complete the facts of
// the event.
func (c Change) Decided(by Change) Change {
	known, is := by.After, &c.After
	if known.Subscription != nil {
		is.Subscription, is.PaidAfterEnd = known.Subscription, known.PaidAfterEnd
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

// paidBy assigns the refunds, disputes and warnings of a payment to the owner of the payment. If another event fetched
// the same object first, the fetched facts change nothing for this event. The run of that event has the invoice, and
// books a refund that has no known tax here.
func (s State) paidBy(p Payment) State {
	s.Payment = &p
	s.Refunds, s.Disputes, s.Warnings = slices.Clone(s.Refunds), slices.Clone(s.Disputes), slices.Clone(s.Warnings)
	take := func(r *Ref) {
		if r.Payment == p.ID {
			r.paidBy(&p)
		}
	}
	for n := range s.Refunds {
		r := &s.Refunds[n]
		take(&r.Ref)
		r.Unbilled = r.Unbilled || r.Payment == p.ID && r.Invoice != "" && !r.Taxed
	}
	for n := range s.Disputes {
		take(&s.Disputes[n].Ref)
	}
	for n := range s.Warnings {
		take(&s.Warnings[n].Ref)
	}
	return s
}
