package fold

import "slices"

// AsksPayment reports whether an invoice has a paid amount without a known payment, so that its payments have to be
// fetched.
func (c Change) AsksPayment() bool {
	i := c.After.Invoice
	return i != nil && (i.Unexplained > 0 || i.IsPaid() && i.Paid > 0 && i.How == "")
}

// AsksInvoice reports whether a payment intent was paid and its invoice is unknown, so that the invoice has to be
// fetched. The payment of a one-off checkout session has no invoice.
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

// Decided returns the whole change of an event and of the facts that were fetched for it: from the state before the
// event to the state after the fetched facts.
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
	if known.Invoice != nil {
		if is.Invoice == nil { // only the fetched facts name the invoice
			c.Before.Invoice = by.Before.Invoice
		}
		is.Invoice = known.Invoice
	}
	if p := known.Payment; p != nil {
		c.After = c.After.paidBy(*p)
	}
	return c
}

// paidBy copies the owner of a payment to its refunds, disputes and warnings in the state. If the run of another event
// fetched the invoice first, the fetched facts change nothing in this run, so that the owner would be missing. The
// other run has the invoice and books the refund, because this run does not know the tax of the refund.
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
