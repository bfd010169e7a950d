package flowtest

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// all combines several preparations into one.
func all(list ...func(*rig, forge.Event)) func(*rig, forge.Event) {
	return func(r *rig, e forge.Event) {
		for _, prepare := range list {
			prepare(r, e)
		}
	}
}

// charged prepares a paid invoice with a charge that does not name it, and the event that connects them.
var charged = all(sent("invoice.paid", -time.Hour), sent("charge.succeeded", -time.Hour), sent("invoice_payment.paid", -time.Hour))

// sold makes a session a one-time purchase of a week.
func sold(t *testing.T, e forge.Event) forge.Event {
	return session(t, e, func(object map[string]any) {})
}

func session(t *testing.T, e forge.Event, edit func(object map[string]any)) forge.Event {
	return change(t, e, func(body map[string]any) {
		object := body["data"].(map[string]any)["object"].(map[string]any)
		object["mode"], object["subscription"], object["invoice"] = "payment", nil, nil
		object["payment_intent"] = "pi_" + seedOf(e)
		object["metadata"] = map[string]any{"price": "price_week"}
		edit(object)
	})
}

func nobody(t *testing.T, e forge.Event) forge.Event {
	return session(t, e, func(object map[string]any) { object["client_reference_id"], object["customer"] = nil, nil })
}

func weekly(c *config.Config) {
	// longer than the test takes
	c.Plans.Prices["price_week"] = config.Price{Plan: "starter", For: 10 * 365 * 24 * time.Hour}
}

// ordered returns the effects of a paid one-time order.
func ordered(pairs ...string) map[string]string {
	return with(map[string]string{"apply-facts": "done", "provision-workspace": "done", "finance-export": "done", "order-email": "done"}, pairs...)
}

// The counts include the earlier events: the paid invoice had all its effects.
var moneyBranches = []branch{
	{
		flow: "RefundChanged", name: "succeeded", plan: "starter", eventType: "refund.updated", outcome: "processed", prepare: charged,
		effects: map[string]string{"apply-facts": "done", "refund-entry": "done"}, done: once(map[string]int{"finance": 2, "events": 4}),
	},
	{
		flow: "RefundChanged", name: "failed-after", plan: "starter", eventType: "refund.failed", outcome: "processed",
		prepare: all(charged, sent("refund.updated", -time.Minute)),
		effects: map[string]string{"apply-facts": "done", "refund-reversal-entry": "done"}, done: once(map[string]int{"finance": 3, "events": 5}),
	},
	{
		flow: "RefundChanged", name: "succeeded-told-late", plan: "starter", eventType: "refund.updated", outcome: "processed",
		prepare: all(charged, sent("refund.failed", time.Minute)),
		effects: map[string]string{"apply-facts": "done", "refund-entry": "done", "refund-reversal-entry": "done"}, done: once(map[string]int{"finance": 3, "events": 5}),
	},
	{
		flow: "RefundChanged", name: "account-unknown", plan: "starter", eventType: "refund.updated", outcome: "processed",
		effects: map[string]string{"apply-facts": "done"}, done: map[string]int{"finance": 0, "events": 0},
	},
	{
		flow: "RefundChanged", name: "access-ends", plan: "starter", eventType: "charge.refunded", outcome: "processed", prepare: charged,
		tune:    func(c *config.Config) { c.Policy.FullRefund = "end" },
		effects: map[string]string{"apply-facts": "done", "provision-workspace": "done", "release-task": "done", "access-ended-notice": "done"}, done: once(map[string]int{"workspaces": 2, "email": 2, "events": 4}),
	},
	{
		flow: "RefundChanged", name: "finance-down", plan: "starter", eventType: "refund.updated", outcome: "processed",
		prepare: all(charged, faults(financeDown)), parks: receipt.Dead, reason: "effect_failed: refund-entry is failed", decide: workflows.UpdateRetry,
		effects: map[string]string{"apply-facts": "done", "refund-entry": "done"}, done: once(map[string]int{"finance": 2, "events": 4}),
	},
	{
		flow: "Record", name: "refund-known", plan: "starter", eventType: "invoice_payment.paid", outcome: "processed",
		prepare: all(sent("refund.updated", time.Minute), sent("invoice.paid", -time.Hour)),
		effects: map[string]string{"apply-facts": "done", "refund-entry": "done"}, done: once(map[string]int{"finance": 2, "events": 4}),
	},
	{
		flow: "InvoicePaid", name: "refund-waited", plan: "starter", eventType: "invoice.paid", outcome: "processed",
		prepare: all(sent("refund.updated", time.Minute), sent("invoice_payment.paid", 0)),
		effects: healthy("refund-entry", "done"), done: once(map[string]int{"finance": 2, "events": 4}),
	},
	{
		flow: "DisputeChanged", name: "disputed", plan: "starter", eventType: "charge.dispute.created", outcome: "processed", prepare: charged,
		effects: map[string]string{"apply-facts": "done", "dispute-entry": "done"}, done: once(map[string]int{"finance": 2, "events": 4}),
	},
	{
		flow: "DisputeChanged", name: "reinstated", plan: "starter", eventType: "charge.dispute.funds_reinstated", outcome: "processed",
		prepare: all(charged, sent("charge.dispute.created", -time.Minute)),
		effects: map[string]string{"apply-facts": "done", "dispute-entry": "done"}, done: once(map[string]int{"finance": 3, "events": 5}),
	},
	{
		flow: "DisputeChanged", name: "held", plan: "starter", eventType: "charge.dispute.created", outcome: "processed", prepare: charged,
		tune:    func(c *config.Config) { c.Policy.Dispute = "hold" },
		effects: map[string]string{"apply-facts": "done", "dispute-entry": "done", "provision-workspace": "done", "access-ended-notice": "done"}, done: once(map[string]int{"workspaces": 2, "finance": 2, "email": 2, "events": 5}),
	},
	{
		flow: "CreditNoteIssued", name: "issued", plan: "starter", eventType: "credit_note.created", outcome: "processed", prepare: sent("invoice.paid", -time.Hour),
		effects: map[string]string{"apply-facts": "done", "credit-entry": "done"}, done: once(map[string]int{"finance": 2}),
	},
	{
		flow: "CreditNoteIssued", name: "voided", plan: "starter", eventType: "credit_note.voided", outcome: "processed", prepare: sent("invoice.paid", -time.Hour),
		effects: map[string]string{"apply-facts": "done", "credit-entry": "done", "credit-reversal-entry": "done"}, done: once(map[string]int{"finance": 3}),
	},
	{
		flow: "CheckoutPaid", name: "subscribed", plan: "starter", eventType: "checkout.session.completed", outcome: "processed",
		effects: map[string]string{"apply-facts": "done"}, done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
	{
		flow: "CheckoutPaid", name: "ordered", plan: "starter", eventType: "checkout.session.completed", outcome: "processed", tune: weekly, change: sold,
		effects: ordered(), done: map[string]int{"workspaces": 1, "finance": 1, "email": 1, "events": 2},
	},
	{
		flow: "CheckoutPaid", name: "ordered-delayed", plan: "starter", eventType: "checkout.session.async_payment_succeeded", outcome: "processed", tune: weekly, change: sold,
		prepare: func(r *rig, e forge.Event) { // the session is complete, but the payment is delayed
			before := purchaseAt(r.T, seedOf(e), "checkout.session.completed", "starter", bought.Add(-time.Hour))
			r.result(r.receive(session(r.T, rename(r.T, before, before.ID+"_completed"), func(object map[string]any) {
				object["payment_status"], object["payment_intent"] = "unpaid", "pi_"+seedOf(e)
			})), "")
		},
		effects: ordered(), done: map[string]int{"workspaces": 1, "finance": 1, "email": 1, "events": 2},
	},
	{
		flow: "CheckoutPaid", name: "order-refused", plan: "starter", eventType: "checkout.session.completed", outcome: "compensated", tune: weekly, change: sold,
		prepare: faults(refuse), announced: []string{"billing.checkout.completed", "access.changed", "access.changed"},
		effects: map[string]string{
			"apply-facts": "compensated", "finance-export": "compensated", "order-email": "compensated", "provision-workspace": "done",
			"withhold-grant": "done", "reverse-finance-entry": "done", "correction-notice": "done",
		},
		done: map[string]int{"workspaces": 1, "finance": 2, "email": 2, "events": 3},
	},
	{
		flow: "CheckoutPaid", name: "order-of-nobody", plan: "starter", eventType: "checkout.session.completed", outcome: "processed", tune: weekly, change: nobody,
		parks: receipt.NeedsReview, reason: "account_unknown: ", decide: workflows.UpdateSkip,
		effects: map[string]string{"apply-facts": "done", "review": "done", "close-review": "done"}, done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
}
