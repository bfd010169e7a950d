package fold

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// State holds the account and the objects that the facts of an event are about. A [Change] contains the State before
// the facts were applied and the State after it.
type State struct {
	Subscription *Subscription `json:",omitempty"`
	Invoice      *Invoice      `json:",omitempty"`
	Payment      *Payment      `json:",omitempty"`
	Checkout     *Checkout     `json:",omitempty"`
	// Refunds, Disputes, Credits and Warnings contain the objects that the facts are about. They also contain objects
	// that had no known account until these facts.
	Refunds  []Refund  `json:",omitempty"`
	Disputes []Dispute `json:",omitempty"`
	Credits  []Credit  `json:",omitempty"`
	Warnings []Warning `json:",omitempty"`
	// PaidAfterEnd is an invoice of the subscription that a person must review, because it was paid after the end. It
	// is the invoice of the facts, if that one is affected.
	PaidAfterEnd *Invoice `json:",omitempty"`
	// Corrections are decisions of people about wrong entries.
	Corrections []Correction `json:",omitempty"`
	Access      Access
}

// Change is the result of applying facts. The ledger and the workflow histories store it. Effects are planned from the
// change alone.
type Change struct {
	// Subject is the header of the applied facts, which all come from one event. For a scheduled action it is the
	// header of the fact that scheduled it.
	Subject       fact.Subject `json:",omitzero"`
	Before, After State
	// Before.Access and After.Access belong to the account that the objects have now. Others contains the access of
	// other accounts, if objects left them or moved to them together with their customer.
	Others []Access `json:",omitempty"`
	// Silent is set if effects are withheld, because the facts were imported or are older than the start of effects.
	Silent bool `json:",omitempty"`
	// Due is the scheduled action that runs now.
	Due []Due `json:",omitempty"`
	// Rows is the number of rows that were read to compute the change.
	Rows int
}

// NotOurs reports whether the facts are about another product. They then have no effects.
func (c Change) NotOurs() bool {
	s, i := c.After.Subscription, c.After.Invoice
	return s != nil && s.NotOurs && (i == nil || i.NotOurs) || s == nil && i != nil && i.NotOurs
}

// Asks lists the unmapped prices of the order that the facts are about. Each of them has an open task.
func (c Change) Asks() []string {
	if c.After.Subscription != nil {
		return c.After.Subscription.Asks
	}
	asks, _ := Asks(c.After.Checkout)
	return asks
}

// Asks returns the unmapped prices of a subscription or a checkout session that open a task, and its account. It
// returns neither for another object, or for nil.
func Asks(o Object) (prices []string, account string) {
	switch o := o.(type) {
	case *Subscription:
		return o.Asks, o.Account
	case *Checkout:
		if o != nil {
			return o.Asks, o.Account
		}
	}
	return nil, ""
}

// PaidInVain reports whether a customer paid an invoice of a refused order, and nothing is granted instead.
func (c Change) PaidInVain() bool {
	s, i := c.After.Subscription, c.After.Invoice
	return s != nil && s.Withheld && i != nil && i.IsPaid() && slices.Equal(i.Prices, s.Given().Prices)
}

// Add stores an object in the field of its kind.
func (s *State) Add(o Object) {
	switch o := o.(type) {
	case *Subscription:
		s.Subscription = o
	case *Invoice:
		s.Invoice = o
	case *Payment:
		s.Payment = o
	case *Checkout:
		s.Checkout = o
	case *Refund:
		s.Refunds = append(s.Refunds, *o)
	case *Dispute:
		s.Disputes = append(s.Disputes, *o)
	case *Credit:
		s.Credits = append(s.Credits, *o)
	case *Warning:
		s.Warnings = append(s.Warnings, *o)
	}
}

// ReviewPaidAfterEnd sets PaidAfterEnd from the known invoices.
func (s *State) ReviewPaidAfterEnd(known Objects) {
	if s.Subscription == nil {
		return
	}
	for _, id := range s.Subscription.PaidAfterEnd {
		i := Find[*Invoice](known, id)
		if i != nil && (s.PaidAfterEnd == nil || s.Invoice != nil && s.Invoice.ID == id) {
			s.PaidAfterEnd = i
		}
	}
}
