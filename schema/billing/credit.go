package billing

import (
	"cmp"
	"time"
)

// Credit is what the facts about a credit note fold to.
type Credit struct {
	ID string
	// Account is that of its invoice, or the one that its customer is linked to; "" until one of them is known.
	Account string
	Invoice string
	// Subscription is the invoice's.
	Subscription string `json:",omitempty"`
	Customer     string `json:",omitempty"`
	// Status is issued or void: one that is void stays so.
	Status string
	// Amount is what was credited, but for what its refunds pay back; of the first snapshot.
	Amount   int64
	Currency string
	Reason   string `json:",omitempty"`
	// IssuedAt is when the first fact showed it, VoidedAt when the first showed it as void.
	IssuedAt time.Time
	VoidedAt time.Time `json:",omitzero"`
	Because  string    `json:",omitempty"`
}

// Voided reports whether any fact said so.
func (c Credit) Voided() bool { return !c.VoidedAt.IsZero() }

// FoldCredit makes a credit note of the facts about it. Its Account is left to Apply.
func FoldCredit(id string, facts []Fact) Credit {
	c := Credit{ID: id}
	for n, f := range InOrder(facts, CreditSeen) {
		seen := f.Credit
		if n == 0 {
			c.Amount, c.Currency, c.IssuedAt = seen.Amount, seen.Currency, f.OccurredAt
		}
		c.Invoice, c.Customer, c.Reason = cmp.Or(c.Invoice, seen.Invoice), cmp.Or(f.Customer, c.Customer), cmp.Or(seen.Reason, c.Reason)
		c.Status = higher([]string{"issued", "void"}, cmp.Or(c.Status, seen.Status), seen.Status)
		if c.Because = f.EventID; seen.Status == "void" {
			c.VoidedAt = cmp.Or(c.VoidedAt, f.OccurredAt)
		}
	}
	return c
}

// belongsTo returns our account of a credit note, "" until it is known.
func (c Credit) belongsTo(mapped string, invoice *Invoice, ofCustomer []Fact) string {
	if mapped == "" && invoice != nil && invoice.ID == c.Invoice {
		return invoice.Account
	}
	return cmp.Or(mapped, linkOf(ofCustomer))
}

var writeCreditSQL = upsert("credit_notes", "account", "invoice", "subscription", "customer", "status", "amount", "currency", "state")
