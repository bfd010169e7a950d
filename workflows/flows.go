package workflows

import (
	"cmp"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	stripebodies "github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
)

// Flow is one workflow type, and the events that it is for.
type Flow struct {
	// Name is the workflow's type in Temporal.
	Name string
	// Types are the event types that it is for, by provider. Several types may tell of one fact: their effects meet at
	// the same ledger keys.
	Types map[string][]string
	// Does describes it in one sentence.
	Does string
	// plan makes its plan of a change: see [Flow.Run]. It is nil for the relay, which plans nothing.
	plan func(billing.Change, activities.Planning) plan
	// irreversible is set for events whose effects cannot be taken back: a person can retry and skip, not compensate.
	irreversible bool
}

// Run is the flow's workflow function.
func (of Flow) Run(ctx workflow.Context, in EventInput) (EventResult, error) {
	r, err := newRun(ctx, of.Name, in)
	if err != nil {
		return EventResult{}, err
	}
	result, err := of.begin(r.f)
	if err != nil {
		return EventResult{}, err
	}
	// A decision that was taken at the last moment must still get its answer.
	return result, workflow.Await(r.ctx, func() bool { return workflow.AllHandlersFinished(r.ctx) })
}

// begin goes the flow's way, on whichever engine f stands.
func (of Flow) begin(f *flow) (EventResult, error) {
	if of.plan == nil {
		return f.relay()
	}
	f.irreversible = of.irreversible || f.in.Due != nil
	return (&billingFlow{flow: f, plan: of.plan}).run()
}

// Registry is where workflow types are registered: a worker, or a replayer of histories.
type Registry interface {
	RegisterWorkflow(run any)
	RegisterWorkflowWithOptions(run any, options workflow.RegisterOptions)
}

// Register registers all workflow types.
func Register(r Registry) {
	for _, f := range Flows() {
		r.RegisterWorkflowWithOptions(f.Run, workflow.RegisterOptions{Name: f.Name})
	}
	for _, run := range []any{Job, ReconcileAccounts, FindGaps, WatchEndpoint} {
		r.RegisterWorkflow(run)
	}
}

// relayFlow is the workflow type of events that have no flow of their own.
const relayFlow = "Relay"

// Flows is the only list of flows and of their event types. Routing, registration, the documentation and the replay
// tests read it.
func Flows() []Flow {
	return []Flow{
		{
			Name: "InvoicePaid", plan: planInvoicePaid,
			Types: stripe("invoice.paid", "invoice.payment_succeeded", "invoice.overpaid"),
			Does:  "brings the workspace to the paid plan, books the payment, mails a receipt, opens an onboarding task",
		},
		{
			Name: "PaymentFailed", plan: planPaymentFailed,
			Types: stripe("invoice.payment_failed", "invoice.payment_action_required", "invoice.overdue"),
			Does:  "tells the customer where to pay, once for each attempt; access stays for the time of grace",
		},
		{
			Name: "InvoiceClosed", plan: planInvoiceClosed,
			Types: stripe("invoice.voided", "invoice.marked_uncollectible"),
			Does:  "ends the reminders, books its payments",
		},
		{
			Name: "SubscriptionEnded", plan: planSubscriptionEnded,
			Types: stripe("customer.subscription.deleted"),
			Does:  "ends access, suspends the workspace where nothing else grants it, says so by mail, closes its onboarding task",
		},
		{
			Name: "SubscriptionChanged", plan: planSubscriptionChanged, Types: stripe(
				"customer.subscription.created", "customer.subscription.updated",
				"customer.subscription.paused", "customer.subscription.resumed"),
			Does: "brings access and workspace to the plan, the seats and the status of the subscription; tells of a change by mail",
		},
		{
			Name: "TrialEnding", plan: planTrialEnding,
			Types: stripe("customer.subscription.trial_will_end"),
			Does:  "says so by mail, while the trial lasts and the subscription goes on after it",
		},
		{
			Name: "CheckoutPaid", plan: planCheckoutPaid,
			Types: stripe("checkout.session.completed", "checkout.session.async_payment_succeeded"),
			Does:  "links the customer and the subscription to an account; a one-off purchase: provisions it, books the payment, confirms the order by mail",
		},
		{
			Name: "RefundChanged", plan: planMoney, irreversible: true, Types: stripe(
				"refund.created", "refund.updated", "refund.failed", "charge.refunded", "charge.refund.updated"),
			Does: "books a refund, and that it failed after all; ends access after a full one where that is the policy",
		},
		{
			Name: "DisputeChanged", plan: planMoney, irreversible: true, Types: stripe(
				"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
				"charge.dispute.funds_withdrawn",
				"charge.dispute.funds_reinstated", "radar.early_fraud_warning.created",
				"radar.early_fraud_warning.updated"),
			Does: "books what moves, opens and closes the task about it; holds or ends access where that is the policy",
		},
		{
			Name: "CreditNoteIssued", plan: planMoney, irreversible: true,
			Types: stripe("credit_note.created", "credit_note.updated", "credit_note.voided"),
			Does:  "books what of a credit note is no refund, and that it was voided",
		},
		{
			Name: "AccountLinked", plan: planWorkspace,
			Types: stripe("customer.created", "customer.updated"),
			Does:  "links a customer, or a subscription, to an account of ours, and brings the workspaces of both accounts to what they have",
		},
		{
			Name: "Record", plan: planRecord, Types: stripe(
				"customer.subscription.pending_update_applied", "customer.subscription.pending_update_expired",
				"invoice.created", "invoice.finalized", "invoice.finalization_failed", "invoice.updated",
				"invoice.sent", "invoice.deleted",
				"invoice.will_be_due", "invoice_payment.paid", "charge.succeeded",
				"payment_intent.succeeded",
				"checkout.session.async_payment_failed", "checkout.session.expired"),
			Does: "keeps the facts; nothing follows but what waited for them: a workspace whose account they name, an entry whose account they make known, and the task to mend an invoice that Stripe cannot finalize",
		},
		{
			Name: ClockFlow, plan: planAccountDue,
			Does: "does the due steps: planned ends, the end of the grace, reminders of open invoices, questions to a person",
		},
		{
			Name: ReconciledFlow, plan: planReconciled,
			Does: "brings the workspace to Stripe's present state, and books the missing entries, by the keys of the lost events; mails nothing",
		},
		{Name: relayFlow, Does: "delivers the event to the consumers of its source; the flow of every other type"},
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

// Route returns the workflow type for an event type of a provider: the flow that is written for it, else Relay. Every
// flow delivers its event to the consumers of the source as well.
func Route(provider, eventType string) (workflow string) {
	if provider == "stripe" { // a thin event has the flow of the snapshot event that tells the same
		eventType = stripebodies.SnapshotType(eventType)
	}
	return cmp.Or(routes[provider][eventType], relayFlow)
}

// Types lists the event types of a provider that have a flow of their own.
func Types(provider string) []string { return slices.Sorted(maps.Keys(routes[provider])) }

// Written reports whether a flow is written for an event type of a provider.
func Written(provider, eventType string) bool {
	return Route(provider, eventType) != relayFlow
}
