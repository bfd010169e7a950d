package plan

import (
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// CheckoutPaid plans a completed checkout session, or the arrival of its delayed payment. The session links the
// customer and the subscription to an account. If it is a one-off purchase without an invoice, pawl provisions the
// order, books the payment, and confirms the order by e-mail.
//
// If the workspace permanently refuses the order, pawl withholds the grant, reverses the entry, e-mails a correction,
// and opens a task for the refund.
func CheckoutPaid(c fold.Change, p activities.Planning) Plan {
	order := c.After.Checkout
	if !sold(order) {
		return Plan{Steps: workspaceSteps(c)}
	}
	if order.Account == "" {
		return Plan{Review: &Review{
			Object: Object(c.Subject, order.ID), Code: "account_unknown",
			Reason: "session " + order.ID +
				" was paid, but names neither an account nor a customer: assign it with `pawl payments assign`",
			Withholding: activities.WithholdingOf(c),
		}}
	}
	return Plan{Steps: append(workspaceSteps(c), orderSteps(c.Subject, *order, p.BookZero)...)}
}

// sold reports whether a session is a paid one-off purchase. The session may be nil.
func sold(c *fold.Checkout) bool { return c != nil && c.Sells() && c.Paid() }

// orderSteps books the payment of an order and confirms the order by e-mail.
func orderSteps(subject fact.Subject, order fold.Checkout, bookZero bool) (steps []*Step) {
	of := Object(subject, order.ID)
	if order.Amount > 0 || bookZero {
		for _, s := range captureSteps(subject, orderEntry(subject, order), order.Captures) {
			undo := ReverseEntry.Step(strings.TrimPrefix(s.Key, FinanceExport.Key("")), reversal(*s.Entry()))
			steps = append(steps, s.UndoneBy(undo))
		}
	}
	if order.Amount > 0 {
		steps = append(steps, OrderEmail.Step(of, orderLetter("order", subject, order)).UndoneBy(
			CorrectionNotice.Step(of, orderLetter("order-correction", subject, order))))
	}
	return steps
}

// orderEntry books the payment of an order as a whole.
func orderEntry(subject fact.Subject, order fold.Checkout) activities.Entry {
	return activities.Entry{
		Kind: activities.PaymentEntry, Mode: subject.Mode, Account: order.Account,
		ProviderAccount: subject.ProviderAccount, Object: order.ID, Plan: order.Plan, Amount: order.Amount,
		Tax: order.Tax, Currency: order.Currency, Method: activities.ByCharge, OccurredAt: order.PaidAt,
	}
}
