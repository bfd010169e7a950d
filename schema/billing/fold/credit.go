package fold

import (
	"cmp"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Credit is the state of a credit note, computed from its facts.
type Credit struct {
	// Ref contains the credited invoice. The account is the account of that invoice, or else the linked account of the
	// customer. It is empty until one of them is known.
	Ref
	// Status is issued or void. After the first void fact it never changes.
	Status string
	// Amount is the credited amount in the first snapshot. It excludes the part that the refunds of the credit note
	// return.
	Amount int64
	// Tax is the tax in Amount.
	Tax      int64 `json:",omitempty"`
	Currency string
	// OutOfBand is the part of Amount that was returned outside of the provider.
	OutOfBand int64  `json:",omitempty"`
	Reason    string `json:",omitempty"`
	// IssuedAt is the time of the first fact. VoidedAt is the time of the first void fact.
	IssuedAt time.Time
	VoidedAt time.Time `json:",omitzero"`
	// Since is the first fact, or the first void fact if the credit note is void.
	Since fact.Cause
}

// Voided reports whether a fact shows the credit note as void.
func (c Credit) Voided() bool { return !c.VoidedAt.IsZero() }

// CreditOf computes a credit note from the facts about it. Apply sets the account.
func CreditOf(id string, facts []fact.Fact) *Credit {
	c := &Credit{Ref: Ref{ID: id, Assigned: fact.LinkedTo(fact.InOrder(facts))}}
	for n, f := range fact.InOrder(facts, fact.CreditSeen) {
		seen := f.Credit
		if n == 0 {
			c.Amount, c.Tax, c.Currency, c.IssuedAt = seen.Amount, seen.Tax, seen.Currency, f.OccurredAt
			c.OutOfBand, c.Since = seen.OutOfBand, fact.CauseOf(f)
		}
		c.Invoice, c.Customer, c.Reason = cmp.Or(c.Invoice, seen.Invoice), cmp.Or(f.Customer, c.Customer),
			cmp.Or(seen.Reason, c.Reason)
		c.Status = higher([]string{"issued", "void"}, cmp.Or(c.Status, seen.Status), seen.Status)
		if seen.Status == "void" && !c.Voided() {
			c.VoidedAt, c.Since = f.OccurredAt, fact.CauseOf(f)
		}
	}
	return c
}

// Kind implements [Object].
func (*Credit) Kind() Kind { return KindCredit }

// Assign implements [Object].
func (c *Credit) Assign(with Related) {
	i := Find[*Invoice](with.Objects, c.Invoice)
	if c.Account = with.Policy.AccountOf(with.Facts[c.ID]); c.Account == "" && i != nil {
		c.Account = i.Account
	} else if c.Account == "" {
		c.Account = cmp.Or(c.Assigned, fact.LinkOf(with.Facts[c.Customer]))
	}
	if i != nil {
		c.Subscription = i.Subscription
	}
	c.Unbilled = c.Account != "" && c.Invoice != "" && i == nil
}

// Scheduled implements [Object].
func (c *Credit) Scheduled(with Related, now time.Time) []Due {
	step := 0
	if c.Voided() {
		step++
	}
	return c.bookUnbilled(with, c.Since, step, now)
}
