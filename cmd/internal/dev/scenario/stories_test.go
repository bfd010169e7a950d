package scenario_test

// stories say what each step of a story comes to, by the billing model: what the account has and by which event; then the
// effects, the news and the tasks; then what waits for a person.
var stories = map[string][]string{
	"trial-to-paid": {
		"0: active starter by customer.subscription.created | provision-workspace | access.changed, invoice.paid, subscription.changed | ",
		"11: active starter by customer.subscription.trial_will_end | trial-ending-notice |  | ",
		"14: active starter by customer.subscription.updated | finance-export, receipt-email | invoice.paid | ",
	},
	"card-recovers": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | payment.failed | ",
		"32: active starter for a while by customer.subscription.updated | action-required-notice | payment.failed | ",
		"34: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"35: active starter by customer.subscription.updated | finance-export, receipt-email | invoice.paid | ",
	},
	"card-suspended": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | payment.failed | ",
		"34: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"35: active starter for a while by customer.subscription.updated | action-required-notice | payment.failed | ",
		"38: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"45: active starter for a while by customer.subscription.updated | dunning-notice |  | ",
		"48: active starter for a while by customer.subscription.updated | access-ending-notice |  | ",
		"52: suspended by customer.subscription.updated: the subscription is past due, and the grace is over | access-ended-notice, provision-workspace | access.changed | ",
		"54: active starter by customer.subscription.updated | finance-export, provision-workspace, receipt-email | access.changed, invoice.paid | ",
	},
	"upgrade": {
		begin,
		"10: active pro by customer.subscription.updated | finance-export, provision-workspace, receipt-email, subscription-changed-notice | access.changed, invoice.paid, subscription.changed | ",
		"20: active starter by customer.subscription.updated | provision-workspace, subscription-changed-notice | access.changed, subscription.changed | ",
		"30: active starter by customer.subscription.updated | finance-export, receipt-email | invoice.paid | ",
	},
	"seats": {
		"0: active starter × 3 by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, invoice.paid, subscription.changed | ",
		"8: active starter × 5 by customer.subscription.updated | finance-export, provision-workspace, receipt-email, subscription-changed-notice | access.changed, invoice.paid, subscription.changed | ",
		"18: active starter × 2 by customer.subscription.updated | provision-workspace, subscription-changed-notice | access.changed, subscription.changed | ",
		"30: active starter × 2 by customer.subscription.updated | finance-export, receipt-email | invoice.paid | ",
	},
	// By the policy that is the default, a refund and a dispute take no access.
	"refund": {
		begin,
		"5: active starter by customer.subscription.created | fetch-object, refund-entry | refund.succeeded | ",
		"7: active starter by customer.subscription.created | fetch-object, refund-entry | refund.succeeded | ",
		"9: active starter by customer.subscription.created | refund-reversal-entry | refund.failed | ",
	},
	"dispute-lost": {
		begin,
		"3: active starter by customer.subscription.created |  |  | fraud_warning",
		"4: active starter by customer.subscription.created | dispute-entry | dispute.needs_response | dispute, fraud_warning cancelled",
		"8: active starter by customer.subscription.created |  | dispute.under_review | dispute cancelled",
		"25: active starter by customer.subscription.created |  | dispute.lost | ",
	},
	"cancelled-paid-late": {
		begin,
		"30: active starter for a while by customer.subscription.updated | action-required-notice | payment.failed | ",
		"31: suspended by customer.subscription.deleted: the subscription is canceled | provision-workspace, subscription-ended-notice | access.changed, subscription.ended | ",
		"32: suspended by customer.subscription.deleted: the subscription is canceled | finance-export, receipt-email, review | invoice.paid |  | needs_review",
	},
	"annual": {
		"0: active pro by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, invoice.paid, subscription.changed | ",
		"12: active pro by customer.subscription.updated | finance-export, receipt-email | invoice.paid | ",
	},
	"planned-end": {
		begin,
		"27: active starter for a while by customer.subscription.updated | subscription-changed-notice | subscription.changed | ",
		"31: suspended by customer.subscription.updated: the subscription was planned to end | provision-workspace | access.changed | ",
		"32: suspended by customer.subscription.deleted: the subscription is canceled | subscription-ended-notice | subscription.ended | ",
	},
	"once": {
		"0: active pro for a while by checkout.session.completed | fetch-object, finance-export, order-email, provision-workspace | access.changed, checkout.completed | ",
		"8: suspended by checkout.session.completed: the time that was paid for is over | provision-workspace | access.changed | ",
	},
	// No letter tells of the change that did not come. The news tell it, and that it was taken back. The move back to what
	// is given already is no change.
	"refused-upgrade": {
		begin,
		"5: active starter by customer.subscription.updated | finance-export, provision-workspace, provision-workspace failed, receipt-email, withhold-grant | access.changed, access.changed, invoice.paid, subscription.changed, subscription.changed | correction",
		"7: active starter by customer.subscription.updated | fetch-object, refund-entry | refund.succeeded | correction cancelled",
		"8: active starter by customer.subscription.updated |  |  | ",
	},
	// One workspace, under the account that the session names, though its event is the last.
	"checkout": {
		"0: active starter × 2 by customer.subscription.updated | finance-export, provision-workspace, receipt-email | access.changed, invoice.paid, subscription.changed | ",
	},
	"invoice-by-transfer": {
		"0: active starter × 5 by customer.subscription.created | provision-workspace | access.changed, subscription.changed | ",
		"14: active starter × 5 by customer.subscription.created | action-required-notice | payment.failed | ",
		"18: active starter × 5 by customer.subscription.created | dunning-notice |  | ",
		"20: active starter × 5 by customer.subscription.created | finance-export, receipt-email | invoice.paid | ",
	},
}

// begin is how most stories begin: a month of the lower plan is paid.
const begin = "0: active starter by customer.subscription.created | finance-export, provision-workspace, receipt-email | access.changed, invoice.paid, subscription.changed | "
