package activities

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Withholding identifies a grant to withhold.
type Withholding struct {
	fact.Subject
	// Account is the account of the customer at the company that uses pawl.
	Account string
	// Object is the subscription, the one-off invoice or the checkout session that was paid.
	Object  string
	Prices  []fact.Bought
	Invoice string
	// Checkout is the checkout session, or "" for another object.
	Checkout string `json:",omitempty"`
	// Change is set if a change of the subscription was refused. It contains the refused plan and quantity.
	Change string `json:",omitempty"`
}

// WithholdingOf returns the Withholding for the grants of a change.
func WithholdingOf(c fold.Change) Withholding {
	w := Withholding{Subject: c.Subject, Account: c.After.Access.Account}
	if o := c.After.Checkout; o != nil && o.Sells() {
		w.Object, w.Checkout, w.Prices = o.ID, o.ID, o.Prices
	}
	if i := c.After.Invoice; i != nil {
		w.Object, w.Invoice, w.Prices = i.Bought(), i.ID, i.Prices
	}
	if s := c.After.Subscription; s != nil {
		w.Object, w.Prices = s.ID, s.Given().Prices
	}
	return w
}

// WithholdingOfChange returns the Withholding for a change to a subscription that has an earlier grant.
func WithholdingOfChange(c fold.Change) Withholding {
	w := WithholdingOf(c)
	is := c.After.Subscription.Given()
	w.Change = fmt.Sprintf("%s:%d", is.Plan, is.Quantity)
	return w
}

// WithholdGrant withholds the grant of a subscription or an order as long as its prices and quantities stay the same.
// It stores a fact and computes the access of the account again. The same transaction opens a task about the customer's
// money. The result's Value is a fold.Change.
func (b *Billing) WithholdGrant(ctx context.Context, in EffectInput[Withholding]) (effect.Result, error) {
	w := in.For
	if w.Object == "" { // nothing was granted
		return b.apply(ctx, in.Effect, Facts{}, nil)
	}
	if err := in.Effect.Check(w.Mode); err != nil {
		return effect.Result{}, err
	}
	return b.apply(ctx, in.Effect, Facts{Facts: w.facts(in.Effect.Compensates)}, nil)
}

// facts returns the fact that withholds the grant, or nil if nothing was granted.
func (w Withholding) facts(compensates string) []fact.Fact {
	if w.Object == "" {
		return nil
	}
	why := "withheld with " + cmp.Or(compensates, "the review of "+w.Object)
	if w.Change != "" {
		why = "the change to " + w.Change + " was refused"
	}
	return []fact.Fact{{
		Subject: w.Subject, Kind: fact.Withheld, Object: w.Object, Rank: fact.RankChange,
		Origin: fact.FromEvent,
		Data: fact.Data{Decision: &fact.Decision{By: "pawl", Reason: why,
			Prices: w.Prices, Invoice: w.Invoice, Checkout: w.Checkout}},
	}}
}
