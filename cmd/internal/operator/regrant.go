package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// regrantRule grants a withheld order again. The decision is a fact, and a scheduled action brings the workspace of the
// account to its target.
var regrantRule = rule[billing.Order, *billing.Order]{
	find: func(ctx context.Context, d *Decision) (billing.Order, string, error) {
		found, err := billing.Orders(ctx, d.o.DB, d.Mode, d.Target)
		order, err := only(d.Target, found, err, fmt.Sprintf("%q is not a known subscription, one-off invoice or "+
			"checkout session: `pawl tasks list --kind correction` lists the withheld orders", d.Target), bothModes)
		return order, "order/" + order.Mode + "/" + order.ID, err
	},
	check: func(ctx context.Context, d *Decision, order billing.Order) (*change, error) {
		fact, err := regrant(ctx, d, order)
		if err != nil {
			return nil, err
		}
		money := map[string]int64{}
		if order.Currency != "" {
			money[order.Currency] = order.Amount
		}
		return &change{
			target: order.ID, judges: order.Mode == live, money: money,
			before: map[string]any{"mode": order.Mode, "kind": order.Kind, "account": order.Account,
				"plan": order.Plan, "amount": order.Amount, "currency": order.Currency, "withheld": true},
			after: map[string]any{"withheld": false},
			do:    d.apply(fact),
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, order billing.Order, _ recorded) (string, *billing.Order, error) {
		order.Withheld = false
		return fmt.Sprintf("%s grants %s again; the workspace of %s follows within seconds", order.ID, order.Plan,
			order.Account), &order, nil
	},
	forecast: func(ctx context.Context, d *Decision, order billing.Order, p *Preview) error {
		fact, err := regrant(ctx, d, order)
		if err != nil {
			return err
		}
		if order.Amount == 0 {
			p.Warning = "No payment for " + order.ID + " is left: it was refunded, or it was never paid."
		}
		return d.forecastFact(ctx, order.Account, fact, p)
	},
}

// regrant returns the fact of the decision. It refuses an order that is not withheld.
func regrant(ctx context.Context, d *Decision, order billing.Order) (fact.Fact, error) {
	if !order.Withheld {
		return fact.Fact{}, d.refuse("is not withheld: `pawl accounts show` explains the access of its account")
	}
	return order.Regrant(ctx, d.o.DB, fact.Decision{By: d.Who, Why: d.Why}, "operator-"+uuid.NewString(),
		time.Now().UTC())
}
