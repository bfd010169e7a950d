package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planCheckoutPaid is what happens when a checkout session is completed, or a delayed payment of it has come: it says
// whose the customer and the subscription are. A one-off purchase without an invoice is an order: it is
// provisioned, booked and confirmed by letter.
//
// When provisioning is refused for good, what the order grants is withheld, its entry reversed, a correction mailed,
// and a task asks a person what becomes of the money.
func planCheckoutPaid(c billing.Change, p activities.Planning) plan {
	order := c.After.Checkout
	if order == nil || !order.Sells() || !order.Paid() {
		return plan{steps: workspaceSteps(c), review: reviewOf(c)}
	}
	if order.Account == "" {
		return plan{review: &review{object: object(c.Subject, order.ID), reason: reason{"account_unknown",
			"session " + order.ID + " was paid, and names neither an account nor a customer: `pawl money claim` gives it to one"}}}
	}
	return plan{steps: append(workspaceSteps(c), orderSteps(c.Subject, *order, p.BookZero)...), review: reviewOf(c)}
}

// orderSteps book the payment of an order, and confirm it by letter.
func orderSteps(subject billing.Subject, order billing.Checkout, bookZero bool) (steps []*step) {
	of := object(subject, order.ID)
	if order.Amount > 0 || bookZero {
		entry := activities.Entry{
			Kind: activities.PaymentEntry, Mode: subject.Mode, Account: order.Account,
			ProviderAccount: subject.ProviderAccount, Object: order.ID, Plan: order.Plan, Amount: order.Amount,
			Tax: order.Tax, Currency: order.Currency, How: activities.ByCharge, OccurredAt: order.PaidAt,
		}
		steps = append(steps, financeExport.step(of, entry).undoneBy(reverseEntry.step(of, reversal(entry))))
	}
	if order.Amount > 0 {
		steps = append(steps, orderEmail.step(of, orderLetter("order", subject, order)).undoneBy(
			correctionNotice.step(of, orderLetter("order-correction", subject, order))))
	}
	return steps
}
