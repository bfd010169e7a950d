package workflows

// Ignored is a group of event types without a flow, and the reason why they have none. pawl still relays events of
// these types.
type Ignored struct {
	Types []string
	Why   string
}

// IgnoredTypes lists the types of Stripe's billing events without a flow. Together with [Flows] it covers every type
// that a SaaS company can receive.
func IgnoredTypes() []Ignored {
	return []Ignored{
		{[]string{"invoice.upcoming"}, "announces an invoice that does not exist yet and has no ID"},
		{[]string{"invoice.payment_attempt_required"}, "asks you to collect outside of Stripe; `invoice.paid` and `invoice.overdue` report the result"},
		{[]string{"payment_method.attached", "payment_method.detached", "payment_method.updated",
			"payment_method.automatically_updated",
			"setup_intent.succeeded", "setup_intent.setup_failed", "customer.source.expiring"},
			"cards grant nothing; the invoice reports whether a card paid it"},
		{[]string{"customer.discount.created", "customer.discount.updated", "customer.discount.deleted",
			"customer.tax_id.updated"},
			"changes the amount of the next invoice, which contains it"},
		{[]string{"subscription_schedule.released", "subscription_schedule.canceled", "subscription_schedule.aborted",
			"subscription_schedule.expiring"},
			"plans changes; `customer.subscription.updated` reports each change when it happens"},
		{[]string{"entitlements.active_entitlement_summary.updated"}, "pawl takes features from `plans.features`"},
		{[]string{"account.updated", "capability.updated", "account.application.deauthorized"},
			"concerns a connected account, and none of its customers"},
		{[]string{"billing.alert.triggered", "billing.credit_grant.created", "billing.credit_grant.updated",
			"v1.billing.meter.error_report_triggered"},
			"concerns usage, which grants nothing"},
		{[]string{"product.created", "product.updated", "product.deleted", "price.created", "price.updated",
			"price.deleted"},
			"`plans.prices` maps prices to plans"},
		{[]string{"charge.failed", "payment_intent.payment_failed", "payment_intent.processing",
			"payment_intent.canceled"},
			"the invoice or the checkout session reports the result of a payment"},
		{[]string{"charge.expired", "payment_intent.amount_capturable_updated"},
			"an authorisation is not cash: a capture has its own events, and a release moves no money"},
	}
}
