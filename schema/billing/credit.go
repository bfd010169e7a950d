package billing

import (
	"cmp"
	"time"
)

// Credit is what the facts about a credit note fold to.
type Credit struct {
	// Ref names the invoice that is credited. Its account is that of the invoice, or the one that its customer is
	// linked to; "" until one of them is known.
	Ref
	// Status is issued or void: one that is void stays so.
	Status string
	// Amount is the credited amount of the first snapshot, less the part that its refunds pay back.
	Amount int64
	// Tax is the part of Amount that is tax.
	Tax      int64 `json:",omitempty"`
	Currency string
	// OutOfBand is the part of Amount that was given back outside of the provider.
	OutOfBand int64  `json:",omitempty"`
	Reason    string `json:",omitempty"`
	// IssuedAt is when the first fact showed it, VoidedAt when the first showed it as void.
	IssuedAt time.Time
	VoidedAt time.Time `json:",omitzero"`
	// Since is the fact that showed it first, or as void.
	Since Cause
}

// Voided reports whether any fact said so.
func (c Credit) Voided() bool { return !c.VoidedAt.IsZero() }

// FoldCredit makes a credit note of the facts about it. Its Account is left to Apply.
func FoldCredit(id string, facts []Fact) *Credit {
	c := &Credit{Ref: Ref{ID: id, Claimed: linkedTo(InOrder(facts))}}
	for n, f := range InOrder(facts, CreditSeen) {
		seen := f.Credit
		if n == 0 {
			c.Amount, c.Tax, c.Currency, c.IssuedAt = seen.Amount, seen.Tax, seen.Currency, f.OccurredAt
			c.OutOfBand, c.Since = seen.OutOfBand, causeOf(f)
		}
		c.Invoice, c.Customer, c.Reason = cmp.Or(c.Invoice, seen.Invoice), cmp.Or(f.Customer, c.Customer),
			cmp.Or(seen.Reason, c.Reason)
		c.Status = higher([]string{"issued", "void"}, cmp.Or(c.Status, seen.Status), seen.Status)
		if seen.Status == "void" && !c.Voided() {
			c.VoidedAt, c.Since = f.OccurredAt, causeOf(f)
		}
	}
	return c
}

func (*Credit) kind() kind { return kindCredit }

func (c *Credit) assign(with related) {
	i := find[*Invoice](with.objects, c.Invoice)
	if c.Account = with.policy.account(with.facts[c.ID]); c.Account == "" && i != nil {
		c.Account = i.Account
	} else if c.Account == "" {
		c.Account = cmp.Or(c.Claimed, linkOf(with.facts[c.Customer]))
	}
	if i != nil {
		c.Subscription = i.Subscription
	}
	c.Unbilled = c.Account != "" && c.Invoice != "" && i == nil
}

func (c *Credit) due(with related, now time.Time) []Due {
	step := 0
	if c.Voided() {
		step++
	}
	return c.bookUnbilled(with, c.Since, step, now)
}
