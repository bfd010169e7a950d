package plan

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/flow"
)

// These are the names of the sinks in the configuration. The settings of a sink define how its effects are attempted.
const (
	SinkDatabase   = "database"
	SinkWorkspaces = "workspaces"
	SinkFinance    = "finance"
	SinkMail       = "email"
	// SinkStripe is Stripe's API, from which objects are fetched.
	SinkStripe = "stripe"
	// SinkDestinations is the sink of all relayed events. Each destination has settings under its own name.
	SinkDestinations = "destinations"
	// SinkFlows is the sink of all requests and workflows of flows in the configuration. Each request names its sink.
	SinkFlows = "flows"
)

// The catalogue lists every kind of effect, in the order of execution. Ledger keys contain the name of a kind, so never
// change a name. The file workflows/activity.go lists the activity of each kind.
var (
	catalogue []Kind

	FetchObject        = register[activities.Wanted]("fetch-object", SinkStripe, "")
	ApplyFacts         = register[activities.Facts]("apply-facts", SinkDatabase, "withhold-grant")
	WithholdGrant      = register[activities.Withholding]("withhold-grant", SinkDatabase, "")
	ApplyDue           = register[activities.AccountDue]("apply-due", SinkDatabase, "")
	ProvisionWorkspace = register[activities.Workspace]("provision-workspace", SinkWorkspaces, "")
	AlignWorkspace     = register[activities.WorkspaceRef]("align-workspace", SinkWorkspaces, "")
	FinanceExport      = register[activities.Entry]("finance-export", SinkFinance, "reverse-finance-entry")
	ReverseEntry       = register[activities.Entry]("reverse-finance-entry", SinkFinance, "")
	RefundEntry        = register[activities.Entry]("refund-entry", SinkFinance, "")
	RefundReversal     = register[activities.Entry]("refund-reversal-entry", SinkFinance, "")
	CreditEntry        = register[activities.Entry]("credit-entry", SinkFinance, "")
	CreditReversal     = register[activities.Entry]("credit-reversal-entry", SinkFinance, "")
	DisputeEntry       = register[activities.Entry]("dispute-entry", SinkFinance, "")
	FinanceCorrection  = register[activities.Entry]("finance-correction", SinkFinance, "")
	OrderEmail         = register[activities.Letter]("order-email", SinkMail, "correction-notice")
	ReceiptEmail       = register[activities.Letter]("receipt-email", SinkMail, "correction-notice")
	CorrectionNotice   = register[activities.Letter]("correction-notice", SinkMail, "")
	EndedNotice        = register[activities.Letter]("subscription-ended-notice", SinkMail, "")
	AccessEndingNotice = register[activities.Letter]("access-ending-notice", SinkMail, "")
	AccessEndedNotice  = register[activities.Letter]("access-ended-notice", SinkMail, "")
	ActionNotice       = register[activities.Letter]("action-required-notice", SinkMail, "")
	DunningNotice      = register[activities.Letter]("dunning-notice", SinkMail, "")
	TrialEndingNotice  = register[activities.Letter]("trial-ending-notice", SinkMail, "")
	ChangedNotice      = register[activities.Letter]("subscription-changed-notice", SinkMail, "")
	OnboardingTask     = register[activities.Task]("onboarding-task", SinkDatabase, "cancel-onboarding-task")
	CancelOnboarding   = register[activities.Task]("cancel-onboarding-task", SinkDatabase, "")
	ReconcileTask      = register[activities.Task]("reconcile-task", SinkDatabase, "")
	AccountTask        = register[activities.Task]("account-task", SinkDatabase, "")
	ReleaseTask        = register[activities.Task]("release-task", SinkDatabase, "")
	ReviewTask         = register[activities.Task]("review", SinkDatabase, "reject-review")
	CloseReview        = register[activities.Task]("close-review", SinkDatabase, "")
	RejectReview       = register[activities.Task]("reject-review", SinkDatabase, "")
	RelayEvent         = register[activities.Delivery]("relay", SinkDestinations, "")
	FlowRequest        = register[flow.Call](flow.RequestKind, SinkFlows, "undo-flow-request")
	UndoFlowRequest    = register[flow.Call]("undo-flow-request", SinkFlows, "")
	FlowWorkflow       = register[flow.Call](flow.WorkflowKind, SinkFlows, "undo-flow-workflow")
	UndoFlowWorkflow   = register[flow.Call]("undo-flow-workflow", SinkFlows, "")
	FlowTask           = register[flow.Call]("flow-task", SinkDatabase, "cancel-flow-task")
	CancelFlowTask     = register[flow.Call]("cancel-flow-task", SinkDatabase, "")
)

// Kind is a kind of effect.
type Kind struct {
	// Name is the first part of the effect's keys.
	Name string
	// Sink names the outside system, or [SinkDatabase].
	Sink string
	// Undo is the kind that compensates this one, or "".
	Undo string
}

// Catalogue returns every kind of effect.
func Catalogue() []Kind { return slices.Clone(catalogue) }

// SinkOf returns the sink of a kind of effect, or "" for a kind of another release.
func SinkOf(kind string) string {
	for _, k := range catalogue {
		if k.Name == kind {
			return k.Sink
		}
	}
	return ""
}

// KindOf is a kind of effect. N is the type of its activity's input, so the compiler rejects a step with another
// input.
type KindOf[N any] struct{ Kind }

func register[N any](name, sink, undo string) KindOf[N] {
	k := Kind{Name: name, Sink: sink, Undo: undo}
	catalogue = append(catalogue, k)
	return KindOf[N]{k}
}

// Key returns the key of an effect of this kind: <kind>:<object>.
func (k KindOf[N]) Key(object string) string { return k.Name + ":" + object }

// Step returns an effect of this kind with the key <kind>:<object>.
func (k KindOf[N]) Step(object string, input N) *Step {
	return &Step{Kind: k.Name, Sink: k.Sink, Key: k.Key(object), Input: input}
}
