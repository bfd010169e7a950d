package workflows

// Ignored is a group of event types that no flow is for, and why not. A source that relays delivers them all the same.
type Ignored struct {
	Types []string
	Why   string
}

// IgnoredTypes lists the types of Stripe's billing events that no flow is for. Together with [Flows] it decides about
// every one that a SaaS may get.
func IgnoredTypes() []Ignored {
	return []Ignored{
		{[]string{"invoice.upcoming"}, "of an invoice that is not there yet, and has no ID"},
		{[]string{"invoice.payment_attempt_required"}, "asks you to collect outside of Stripe; what comes of it is told by `invoice.paid` and `invoice.overdue`"},
		{[]string{"customer.deleted"}, "Stripe ends the customer's subscriptions, each with an event of its own; payments stay"},
		{[]string{"payment_method.attached", "payment_method.detached", "payment_method.updated",
			"payment_method.automatically_updated",
			"setup_intent.succeeded", "setup_intent.setup_failed", "customer.source.expiring"},
			"cards grant nothing; what comes of a card is told by the invoice that it pays, or does not"},
		{[]string{"customer.discount.created", "customer.discount.updated", "customer.discount.deleted",
			"customer.tax_id.updated"},
			"changes what the next invoice comes to, which the invoice tells"},
		{[]string{"subscription_schedule.released", "subscription_schedule.canceled", "subscription_schedule.aborted",
			"subscription_schedule.expiring"},
			"plans changes; `customer.subscription.updated` tells each when it is made"},
		{[]string{"entitlements.active_entitlement_summary.updated"}, "features are those of `plans.features`"},
		{[]string{"account.updated", "capability.updated", "account.application.deauthorized"},
			"of a connected account, and of none of its customers"},
		{[]string{"billing.alert.triggered", "billing.credit_grant.created", "billing.credit_grant.updated",
			"v1.billing.meter.error_report_triggered"},
			"of usage, which grants nothing here"},
		{[]string{"product.created", "product.updated", "product.deleted", "price.created", "price.updated",
			"price.deleted"},
			"what a price means is said by `plans.prices`"},
		{[]string{"charge.failed", "payment_intent.payment_failed", "payment_intent.processing",
			"payment_intent.canceled"},
			"what comes of a payment is told by its invoice or its checkout session"},
	}
}
