package workflows_test

import (
	"testing"

	"github.com/pawlhq/pawl/workflows"
)

// billingEvents lists Stripe's event types about billing that a SaaS company may receive.
var billingEvents = []string{
	"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed", "checkout.session.expired",
	"customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted", "customer.subscription.trial_will_end",
	"customer.subscription.paused", "customer.subscription.resumed", "customer.subscription.pending_update_applied", "customer.subscription.pending_update_expired",
	"invoice.created", "invoice.finalized", "invoice.finalization_failed", "invoice.paid", "invoice.payment_succeeded", "invoice.payment_failed",
	"invoice.payment_action_required", "invoice.payment_attempt_required", "invoice.upcoming", "invoice.voided", "invoice.marked_uncollectible",
	"invoice.overdue", "invoice.will_be_due", "invoice.overpaid", "invoice.sent", "invoice.updated", "invoice.deleted", "invoice_payment.paid",
	"charge.refunded", "refund.created", "refund.updated", "refund.failed", "charge.refund.updated",
	"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
	"radar.early_fraud_warning.created", "payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.processing", "payment_intent.canceled",
	"payment_method.attached", "payment_method.detached", "payment_method.automatically_updated", "payment_method.updated",
	"setup_intent.succeeded", "setup_intent.setup_failed", "customer.created", "customer.updated", "customer.deleted", "customer.source.expiring",
	"customer.discount.created", "customer.discount.updated", "customer.discount.deleted", "customer.tax_id.updated",
	"credit_note.created", "credit_note.updated", "credit_note.voided",
	"subscription_schedule.released", "subscription_schedule.canceled", "subscription_schedule.aborted", "subscription_schedule.expiring",
	"entitlements.active_entitlement_summary.updated", "account.updated", "capability.updated", "account.application.deauthorized",
	"billing.alert.triggered", "billing.credit_grant.created", "billing.credit_grant.updated", "v1.billing.meter.error_report_triggered",
	"product.created", "product.updated", "product.deleted", "price.created", "price.updated", "price.deleted",
}

// For each type there is either a flow or a documented reason to ignore it.
func TestFlows_EachBillingEvent_Decided(t *testing.T) {
	t.Parallel()
	ignored := map[string]int{}
	for _, group := range workflows.IgnoredTypes() {
		if group.Reason == "" {
			t.Errorf("there is no reason why %v are ignored", group.Types)
		}
		for _, name := range group.Types {
			ignored[name]++
			if workflows.Written("stripe", name) {
				t.Errorf("%s is listed as ignored, and belongs to flow %s", name, workflows.Route("stripe", name))
			}
			if ignored[name] > 1 {
				t.Errorf("%s is listed as ignored %d times", name, ignored[name])
			}
		}
	}
	for _, name := range billingEvents {
		if !workflows.Written("stripe", name) && ignored[name] == 0 {
			t.Errorf("nothing is decided about %s", name)
		}
	}
}

// Each event type has at most one flow.
func TestFlows_EachType_OneFlow(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, flow := range workflows.Flows() {
		for provider, types := range flow.Types {
			for _, name := range types {
				if before, twice := of[provider+" "+name]; twice {
					t.Errorf("%s %s is in %s and in %s", provider, name, before, flow.Name)
				}
				of[provider+" "+name] = flow.Name
				if workflows.Route(provider, name) != flow.Name {
					t.Errorf("%s %s is routed to %s", provider, name, workflows.Route(provider, name))
				}
			}
		}
	}
}
