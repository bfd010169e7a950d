package fold

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// State holds the objects of the facts and the account, before or after the facts were applied.
type State struct {
	Subscription *Subscription `json:",omitempty"`
	Invoice      *Invoice      `json:",omitempty"`
	Payment      *Payment      `json:",omitempty"`
	Checkout     *Checkout     `json:",omitempty"`
	// Refunds, Disputes, Credits and Warnings are the objects of the facts, and the objects that waited for the facts
	// because their account was unknown.
	Refunds  []Refund  `json:",omitempty"`
	Disputes []Dispute `json:",omitempty"`
	Credits  []Credit  `json:",omitempty"`
	Warnings []Warning `json:",omitempty"`
	// PaidAfterEnd is the invoice to review among the invoices of the subscription: the invoice of the facts, or else
	// the first one.
	PaidAfterEnd *Invoice `json:",omitempty"`
	// Corrections are the decisions of people about booked money.
	Corrections []Correction `json:",omitempty"`
	Access      Access
}

// Change is the result of applying facts. The ledger and the workflow histories store it, and the effects are planned
// from it alone.
type Change struct {
	// Subject is the header of the applied facts, which come from one event, or of the fact that scheduled the action.
	Subject       fact.Subject `json:",omitzero"`
	Before, After State
	// Before.Access and After.Access belong to the current account of the objects. Others are the accesses of other
	// accounts that objects have left, or have moved to with their customer.
	Others []Access `json:",omitempty"`
	// Silent is set if effects are withheld, because the facts were imported or occurred before the start of effects.
	Silent bool `json:",omitempty"`
	// Due is the scheduled action that runs now.
	Due []Due `json:",omitempty"`
	// Rows is the number of rows that were read.
	Rows int
}

// NotOurs reports whether the facts are about another product and have no effects.
func (c Change) NotOurs() bool {
	s, i := c.After.Subscription, c.After.Invoice
	return s != nil && s.NotOurs && (i == nil || i.NotOurs) || s == nil && i != nil && i.NotOurs
}

// PaidInVain reports whether the facts are about a paid invoice of a refused order, and nothing is granted instead.
func (c Change) PaidInVain() bool {
	s, i := c.After.Subscription, c.After.Invoice
	return s != nil && s.Withheld && i != nil && i.IsPaid() && slices.Equal(i.Prices, s.Given().Prices)
}

// Add adds an object of the facts, or an object that waited for them.
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

// ReviewPaidAfterEnd sets PaidAfterEnd.
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
