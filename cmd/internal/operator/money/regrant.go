package money

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Regrant implements `pawl payments regrant`.
var Regrant = decide.Verb{
	Name: "regrant", Judges: true, Needs: role.RightMoney, Command: "payments regrant", Target: "ID",
	Rule: regrantRule, Flags: []decide.Flag{decide.FlagMode}, Previews: true, Short: "Grant a withheld order again",
	Long: `Grant an order again that is withheld, because your workspace API refused it or a person rejected its review. ID is the
subscription, the one-off invoice or the checkout session. Remove the cause of the refusal first: if the workspace API
refuses the order again, the run of the scheduled action is parked.

pawl updates the workspace of the account within seconds. The customer receives an e-mail only if the plan or the seats
of a subscription change. Entries stay as they are: if the payment was reversed, book it in your finance system.

pawl tasks list --kind correction lists the withheld orders. The audit trail contains your name and the reason.`,
}

// regrantRule grants a withheld order again. The decision is stored as a fact, and a scheduled action brings the
// workspace of the account to its target.
var regrantRule = decide.Rule[billing.Order, *billing.Order]{
	Find: func(ctx context.Context, d *decide.Decision) (billing.Order, string, error) {
		found, err := billing.Orders(ctx, d.Operator.DB, d.Mode, d.Target)
		order, err := decide.Only(d.Target, found, err,
			fmt.Sprintf("%q is not a known subscription, one-off invoice or "+
				"checkout session: `pawl tasks list --kind correction` lists the withheld orders", d.Target), decide.BothModes)
		return order, "order/" + order.Mode + "/" + order.ID, err
	},
	Check: func(ctx context.Context, d *decide.Decision, order billing.Order) (*decide.Change, error) {
		fact, err := regrant(ctx, d, order)
		if err != nil {
			return nil, err
		}
		money := map[string]int64{}
		if order.Currency != "" {
			money[order.Currency] = order.Amount
		}
		return &decide.Change{
			Target: order.ID, Judges: order.Mode == decide.Live, Money: money,
			Before: map[string]any{"mode": order.Mode, "kind": order.Kind, "account": order.Account,
				"plan": order.Plan, "amount": order.Amount, "currency": order.Currency, "withheld": true},
			After: map[string]any{"withheld": false},
			Do:    account.ApplyFact(d, fact),
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, order billing.Order, _ decide.Recorded) (string, *billing.Order,
		error) {
		order.Withheld = false
		return fmt.Sprintf("%s grants %s again; pawl updates the workspace of %s within seconds", order.ID, order.Plan,
			order.Account), &order, nil
	},
	Warn: func(_ context.Context, _ *decide.Decision, order billing.Order) (string, error) {
		if order.Amount != 0 {
			return "", nil
		}
		return "No payment for " + order.ID + " remains: it was refunded, or it was never paid.", nil
	},
	Forecast: func(ctx context.Context, d *decide.Decision, order billing.Order, p *decide.Preview) error {
		fact, err := regrant(ctx, d, order)
		if err != nil {
			return err
		}
		return account.ForecastFact(ctx, d, order.Account, fact, p)
	},
}

// regrant returns the fact of the decision. It refuses an order that is not withheld.
func regrant(ctx context.Context, d *decide.Decision, order billing.Order) (fact.Fact, error) {
	if !order.Withheld {
		return fact.Fact{}, d.Refuse("is not withheld: `pawl accounts show` explains the access of its account")
	}
	return order.Regrant(ctx, d.Operator.DB, fact.Decision{By: d.Actor, Reason: d.Reason}, "operator-"+uuid.NewString(),
		time.Now().UTC())
}
