package billing

// State holds the objects that facts are about, and the account, before or after the facts were applied.
type State struct {
	Subscription *Subscription `json:",omitempty"`
	Invoice      *Invoice      `json:",omitempty"`
	Payment      *Payment      `json:",omitempty"`
	Checkout     *Checkout     `json:",omitempty"`
	// Refunds, Disputes, Credits and Warnings are those that the facts are about, and those that waited for the
	// facts: their account was not known before.
	Refunds  []Refund  `json:",omitempty"`
	Disputes []Dispute `json:",omitempty"`
	Credits  []Credit  `json:",omitempty"`
	Warnings []Warning `json:",omitempty"`
	// Corrections are those that a person has decided about money that is booked.
	Corrections []Correction `json:",omitempty"`
	Access      Access
}

// Change is what applying facts came to. It stands in the ledger and in workflow histories: what follows from the facts
// is planned from it alone.
type Change struct {
	// Subject is the header of the facts that were applied, which come from one event; or of the fact that made
	// something due.
	Subject       Subject `json:",omitzero"`
	Before, After State
	// Before.Access and After.Access are those of the account that the objects belong to now. Others are the accesses
	// of the other accounts that something has left, or has moved to with its customer.
	Others []Access `json:",omitempty"`
	// Silent is set where nothing follows: the facts were imported, or occurred before effects began.
	Silent bool `json:",omitempty"`
	// Due is what the clock does now.
	Due []Due `json:",omitempty"`
	// Rows is how many rows were read to fold them.
	Rows int
}

// NotOurs reports whether the facts are about another product: nothing follows.
func (c Change) NotOurs() bool {
	s, i := c.After.Subscription, c.After.Invoice
	return s != nil && s.NotOurs && (i == nil || i.NotOurs) || s == nil && i != nil && i.NotOurs
}

// add adds an object that the facts are about, or that waited for them.
func (s *State) add(o Object) {
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
