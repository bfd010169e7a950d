package scenario_test

// stories contains the results that the billing model requires for each step of a scenario: the account's access with
// its event; then the effects, the published events and the tasks; then the parked runs.
var stories = map[string][]string{
	"trial-to-paid": {
		"0: active starter by customer.subscription.created | provision-workspace | access.changed, billing.invoice.paid, billing.subscription.changed | ",
		"11: active starter by customer.subscription.trial_will_end | trial-ending-notice |  | ",
		"14: active starter by customer.subscription.updated | finance-export, receipt-email | billing.invoice.paid | ",
	},
	"card-recovers": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | billing.payment.failed | ",
		"32: active starter for a while by customer.subscription.updated | action-required-notice | billing.payment.failed | ",
		"34: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"35: active starter by customer.subscription.updated | finance-export, receipt-email | billing.invoice.paid | ",
	},
	"card-suspended": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | billing.payment.failed | ",
		"34: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"35: active starter for a while by customer.subscription.updated | action-required-notice | billing.payment.failed | ",
		"38: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"45: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"48: active starter for a while by customer.subscription.updated | access-ending-notice |  | ",
		"52: suspended by customer.subscription.updated: the subscription is past due, and its grace period is over | access-ended-notice, provision-workspace | access.changed | ",
		"54: active starter by customer.subscription.updated | finance-export, provision-workspace, receipt-email | access.changed, billing.invoice.paid | ",
	},
	"upgrade": {
		begin,
		"10: active pro by customer.subscription.updated | finance-export, provision-workspace, receipt-email, subscription-changed-notice | access.changed, billing.invoice.paid, billing.subscription.changed | ",
		"20: active starter by customer.subscription.updated | provision-workspace, subscription-changed-notice | access.changed, billing.subscription.changed | ",
		"30: active starter by customer.subscription.updated | finance-export, receipt-email | billing.invoice.paid | ",
	},
	"seats": {
		"0: active starter × 3 by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, billing.invoice.paid, billing.subscription.changed | ",
		"8: active starter × 5 by customer.subscription.updated | finance-export, provision-workspace, receipt-email, subscription-changed-notice | access.changed, billing.invoice.paid, billing.subscription.changed | ",
		"18: active starter × 2 by customer.subscription.updated | provision-workspace, subscription-changed-notice | access.changed, billing.subscription.changed | ",
		"30: active starter × 2 by customer.subscription.updated | finance-export, receipt-email | billing.invoice.paid | ",
	},
	// With the default policy, a refund or a dispute does not revoke access.
	"refund": {
		begin,
		"5: active starter by customer.subscription.created | fetch-object, refund-entry | billing.refund.succeeded | ",
		"7: active starter by customer.subscription.created | fetch-object, refund-entry | billing.refund.succeeded | ",
		"9: active starter by customer.subscription.created | refund-reversal-entry | billing.refund.failed | ",
	},
	"dispute-lost": {
		begin,
		"3: active starter by customer.subscription.created |  |  | fraud_warning",
		"4: active starter by customer.subscription.created | dispute-entry | billing.dispute.needs_response | dispute, fraud_warning cancelled",
		"8: active starter by customer.subscription.created |  | billing.dispute.under_review | dispute cancelled",
		"25: active starter by customer.subscription.created |  | billing.dispute.lost | ",
	},
	"cancelled-paid-late": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | billing.payment.failed | ",
		"31: suspended by customer.subscription.deleted: the subscription is canceled | provision-workspace, subscription-ended-notice | access.changed, billing.subscription.ended | ",
		"32: suspended by customer.subscription.deleted: the subscription is canceled | finance-export, receipt-email, review | billing.invoice.paid |  | needs_review",
	},
	"annual": {
		"0: active pro by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, billing.invoice.paid, billing.subscription.changed | ",
		"12: active pro by customer.subscription.updated | finance-export, receipt-email | billing.invoice.paid | ",
	},
	"planned-end": {
		begin,
		"27: active starter for a while by customer.subscription.updated | subscription-changed-notice | billing.subscription.changed | ",
		"31: suspended by customer.subscription.updated: the subscription has reached its planned end | provision-workspace | access.changed | ",
		"32: suspended by customer.subscription.deleted: the subscription is canceled | subscription-ended-notice | billing.subscription.ended | ",
	},
	"once": {
		"0: active pro for a while by checkout.session.completed | fetch-object, finance-export, order-email, provision-workspace | access.changed, billing.checkout.completed | ",
		"8: suspended by checkout.session.completed: the time that was paid for is over | provision-workspace | access.changed | ",
	},
	// No e-mail reports the refused change. pawl publishes events about the change and about its compensation. A
	// return to the granted plan is not a change.
	"refused-upgrade": {
		begin,
		"5: active starter by customer.subscription.updated | finance-export, provision-workspace, provision-workspace failed, receipt-email, withhold-grant | access.changed, access.changed, billing.invoice.paid, billing.subscription.changed, billing.subscription.changed | correction",
		"7: active starter by customer.subscription.updated | fetch-object, refund-entry | billing.refund.succeeded | correction cancelled",
		"8: active starter by customer.subscription.updated |  |  | ",
	},
	// There is one workspace, with the account of the session, although the event of the session arrives last.
	"checkout": {
		"0: active starter × 2 by customer.subscription.updated | finance-export, provision-workspace, receipt-email | access.changed, billing.invoice.paid, billing.subscription.changed | ",
	},
	"invoice-by-transfer": {
		"0: active starter × 5 by customer.subscription.created | provision-workspace | access.changed, billing.subscription.changed | ",
		"14: active starter × 5 by customer.subscription.created | action-required-notice | billing.payment.failed | ",
		"18: active starter × 5 by customer.subscription.created | dunning-notice |  | ",
		"20: active starter × 5 by customer.subscription.created | finance-export, receipt-email | billing.invoice.paid | ",
	},
}

// begin is the first step of most scenarios: the customer pays a month of the lower plan.
const begin = "0: active starter by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, billing.invoice.paid, billing.subscription.changed | "
