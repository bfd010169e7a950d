package workflows

import (
	"cmp"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	stripebodies "github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/jobs"
	"github.com/pawlhq/pawl/workflows/plan"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// Flow is a workflow type with the event types that it handles.
type Flow struct {
	// Name is the workflow's type in Temporal.
	Name string
	// Types lists the event types by provider. Several types may report one fact; their effects share the same ledger
	// keys.
	Types map[string][]string
	// Summary describes the flow in one sentence.
	Summary string
	// plan plans the effects of a change: see [Flow.Run]. It is nil for the relay.
	plan func(fold.Change, activities.Planning) plan.Plan
	// irreversible is set for events with effects that cannot be compensated: a person can retry and skip, but not
	// compensate.
	irreversible bool
}

// Run is the workflow function.
func (of Flow) Run(ctx workflow.Context, in EventInput) (EventResult, error) {
	r, err := newRun(ctx, of.Name, in)
	if err != nil {
		return EventResult{}, err
	}
	result, err := of.begin(r.f)
	if err != nil {
		return EventResult{}, err
	}
	// Wait for update handlers, so that a late decision still gets its answer.
	return result, workflow.Await(r.ctx, func() bool { return workflow.AllHandlersFinished(r.ctx) })
}

// begin runs the flow on the engine of f.
func (of Flow) begin(f *flow) (EventResult, error) {
	if of.plan == nil {
		return f.relay()
	}
	f.irreversible = of.irreversible || f.in.Due != nil
	return (&billingFlow{flow: f, plan: of.plan}).run()
}

// Registry registers workflow types: a worker, or a replayer of histories.
type Registry interface {
	RegisterWorkflow(run any)
	RegisterWorkflowWithOptions(run any, options workflow.RegisterOptions)
}

// Register registers all workflow types.
func Register(r Registry) {
	for _, f := range Flows() {
		r.RegisterWorkflowWithOptions(f.Run, workflow.RegisterOptions{Name: f.Name})
	}
	for _, run := range []any{jobs.Job, schedules.ReconcileAccounts, schedules.FindGaps, schedules.WatchEndpoint,
		schedules.ApplyRetention} {
		r.RegisterWorkflow(run)
	}
}

// ClockFlow is the workflow type of runs that execute scheduled actions.
const ClockFlow = "AccountDue"

// ReconciledFlow is the workflow type for receipts of [ReconciledType]: objects that a person fetched.
const (
	ReconciledFlow = "Reconciled"
	ReconciledType = activities.Reconciled
)

// LostFlow is the workflow type for events that Stripe sends in place of an event that it could not generate.
const LostFlow = "EventLost"

// relayFlow is the workflow type of events without a flow of their own.
const relayFlow = "Relay"

// Flows returns all flows with their event types. Routing, registration, the documentation and the replay tests use
// this list.
func Flows() []Flow {
	return []Flow{
		{
			Name: "InvoicePaid", plan: plan.InvoicePaid,
			Types:   stripe("invoice.paid", "invoice.payment_succeeded", "invoice.overpaid"),
			Summary: "brings the workspace to the paid plan, books the payment, sends the receipt, opens an onboarding task",
		},
		{
			Name: "PaymentFailed", plan: plan.PaymentFailed,
			Types:   stripe("invoice.payment_failed", "invoice.payment_action_required", "invoice.overdue"),
			Summary: "asks the customer to pay, once per attempt; access stays during the grace period",
		},
		{
			Name: "InvoiceClosed", plan: plan.InvoiceClosed,
			Types:   stripe("invoice.voided", "invoice.marked_uncollectible"),
			Summary: "ends the reminders, books the payments of the invoice",
		},
		{
			Name: "SubscriptionEnded", plan: plan.SubscriptionEnded,
			Types:   stripe("customer.subscription.deleted"),
			Summary: "ends access, suspends the workspace unless something else grants access, informs the customer, closes the onboarding task",
		},
		{
			Name: "SubscriptionChanged", plan: plan.SubscriptionChanged, Types: stripe(
				"customer.subscription.created", "customer.subscription.updated",
				"customer.subscription.paused", "customer.subscription.resumed"),
			Summary: "brings access and workspace to the plan, the seats and the status of the subscription; informs the customer of a change",
		},
		{
			Name: "TrialEnding", plan: plan.TrialEnding,
			Types:   stripe("customer.subscription.trial_will_end"),
			Summary: "informs the customer, if the trial still runs and the subscription continues after it",
		},
		{
			Name: "CheckoutPaid", plan: plan.CheckoutPaid,
			Types:   stripe("checkout.session.completed", "checkout.session.async_payment_succeeded"),
			Summary: "links the customer and the subscription to an account; for a one-off purchase, provisions it, books the payment, confirms the order by e-mail",
		},
		{
			Name: "RefundChanged", plan: plan.MoneyMoved, irreversible: true, Types: stripe(
				"refund.created", "refund.updated", "refund.failed", "charge.refunded", "charge.refund.updated"),
			Summary: "books a refund, or its reversal if it failed; ends access after a full refund if the policy requires it",
		},
		{
			Name: "DisputeChanged", plan: plan.MoneyMoved, irreversible: true, Types: stripe(
				"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
				"charge.dispute.funds_withdrawn",
				"charge.dispute.funds_reinstated", "radar.early_fraud_warning.created",
				"radar.early_fraud_warning.updated"),
			Summary: "books the moved money, opens and closes the task; suspends or ends access if the policy requires it",
		},
		{
			Name: "CreditNoteIssued", plan: plan.MoneyMoved, irreversible: true,
			Types:   stripe("credit_note.created", "credit_note.updated", "credit_note.voided"),
			Summary: "books the part of a credit note that is not refunded, or its reversal if it was voided",
		},
		{
			Name: "AccountLinked", plan: plan.AccountLinked,
			Types:   stripe("customer.created", "customer.updated", "customer.deleted"),
			Summary: "links a customer or a subscription to an account, and brings the workspaces of the old and the new account to their targets; a deleted customer receives no e-mail",
		},
		{
			Name: "Record", plan: plan.Record, Types: stripe(
				"customer.subscription.pending_update_applied", "customer.subscription.pending_update_expired",
				"invoice.created", "invoice.finalized", "invoice.finalization_failed", "invoice.updated",
				"invoice.sent", "invoice.deleted",
				"invoice.will_be_due", "invoice_payment.paid", "charge.succeeded", "charge.captured",
				"payment_intent.succeeded",
				"checkout.session.async_payment_failed", "checkout.session.expired"),
			Summary: "stores the facts; effects follow only if they waited for these facts: a workspace or an entry without an account, and the task to fix an invoice that Stripe cannot finalize",
		},
		{
			Name: ClockFlow, plan: plan.AccountDue,
			Summary: "executes scheduled actions: planned ends, the end of a grace period, reminders of open invoices, tasks",
		},
		{
			Name: ReconciledFlow, plan: plan.Reconciled,
			Summary: "brings the workspace to Stripe's current state, and books missing entries, under the keys of the missing events; sends no e-mail",
		},
		{
			Name: LostFlow, plan: plan.EventLost, irreversible: true, Types: stripe(stripebodies.FailedGeneration),
			Summary: "fetches the object of an event that Stripe could not generate, and reconciles it; sends no e-mail",
		},
		{Name: relayFlow, Summary: "delivers the event to the destinations of its source; the flow of every other type"},
	}
}

func stripe(types ...string) map[string][]string { return map[string][]string{"stripe": types} }

var routes = func() map[string]map[string]string {
	routes := map[string]map[string]string{}
	for _, f := range Flows() {
		for provider, types := range f.Types {
			if routes[provider] == nil {
				routes[provider] = map[string]string{}
			}
			for _, t := range types {
				routes[provider][t] = f.Name
			}
		}
	}
	return routes
}()

// reconciledFlows maps the type of a receipt with a fetched object to its flow. Refunds, disputes and credit notes have
// the same flow as their events, because that flow sends no e-mail.
var reconciledFlows = map[string]string{
	ReconciledType: ReconciledFlow, ReconciledType + ".charge": "RefundChanged",
	ReconciledType + ".refund":  "RefundChanged",
	ReconciledType + ".dispute": "DisputeChanged", ReconciledType + ".early_fraud_warning": "DisputeChanged",
	ReconciledType + ".credit_note": "CreditNoteIssued",
}

// Route returns the workflow type for an event type. It is Relay if no flow handles the type. Every flow also
// delivers its event to the destinations of the source.
func Route(provider, eventType string) (workflow string) {
	if provider == "stripe" { // a thin event has the flow of its snapshot event
		eventType = stripebodies.SnapshotType(eventType)
	}
	return cmp.Or(routes[provider][eventType], relayFlow)
}

// Types lists the event types of a provider with a flow of their own.
func Types(provider string) []string { return slices.Sorted(maps.Keys(routes[provider])) }

// Written reports whether a flow handles an event type of a provider.
func Written(provider, eventType string) bool {
	return Route(provider, eventType) != relayFlow
}

// Ignored is a group of event types without a flow, and the reason why they have none. pawl still relays events of
// these types.
type Ignored struct {
	Types  []string
	Reason string
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
