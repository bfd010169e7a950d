package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// CheckoutPaid is what happens when a checkout session is completed, or a delayed payment of it has come: it says
// whose the customer and the subscription are. A one-off purchase without an invoice is an order: it is
// provisioned, booked and confirmed by letter.
//
// When provisioning is refused for good, what the order grants is withheld, its entry reversed, a correction mailed,
// and a task asks a person what becomes of the money.
func CheckoutPaid(ctx workflow.Context, in EventInput) (EventResult, error) {
	return checkoutPaid.run(ctx, in)
}

var checkoutPaid = billingPlan{flow: "CheckoutPaid", make: planCheckoutPaid}

func planCheckoutPaid(c billing.Change, p activities.Planning) plan {
	order := c.After.Checkout
	if order == nil || !order.Sells() || !order.Paid() {
		return plan{steps: workspaceSteps(c), review: reviewOf(c)}
	}
	of := object(c.Subject, order.ID)
	if order.Account == "" {
		return plan{review: &review{object: of, reason: reason{"account_unknown",
			"session " + order.ID + " was paid, and names neither an account nor a customer: book it, and give access by hand"}}}
	}
	steps := workspaceSteps(c)
	if order.Amount > 0 || p.BookZero {
		entry := orderPayment(c.Subject, *order)
		steps = append(steps, financeExport.step(of, entry).undoneBy(reverseEntry.step(of, reversal(entry))))
	}
	if order.Amount > 0 {
		steps = append(steps, orderEmail.step(of, orderLetter("order", c.Subject, *order)).undoneBy(
			correctionNotice.step(of, orderLetter("order-correction", c.Subject, *order))))
	}
	return plan{steps: steps, review: reviewOf(c)}
}
