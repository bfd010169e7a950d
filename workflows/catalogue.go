package workflows

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// The activities' receivers: only their method values are used, to name activities.
var (
	billingState *activities.Billing
	workspaces   *activities.Workspaces
	finance      *activities.Finance
	mail         *activities.Mail
	tasks        *activities.Tasks
	consumers    *activities.Consumers
	runs         *activities.Runs
	objects      *activities.Objects
)

// The sinks of effects, as configuration names them. A sink's settings say how its effects are tried.
const (
	SinkDatabase   = "database"
	SinkWorkspaces = "workspaces"
	SinkFinance    = "finance"
	SinkMail       = "email"
	// SinkStripe is Stripe's API, of which objects are asked for.
	SinkStripe = "stripe"
	// SinkConsumers stands for all consumers of relayed events; each has settings under its own name.
	SinkConsumers = "consumers"
)

// The catalogue: every kind of effect, in the order in which an event comes to them. A kind's name stands in ledger
// keys and is never changed.
var (
	catalogue []Kind

	fetchObject        = register("fetch-object", SinkStripe, objects.FetchObject, "")
	applyFacts         = register("apply-facts", SinkDatabase, billingState.ApplyFacts, "withhold-grant")
	withholdGrant      = register("withhold-grant", SinkDatabase, billingState.WithholdGrant, "")
	applyDue           = register("apply-due", SinkDatabase, billingState.ApplyDue, "")
	provisionWorkspace = register("provision-workspace", SinkWorkspaces, workspaces.ProvisionWorkspace, "")
	alignWorkspace     = register("align-workspace", SinkWorkspaces, workspaces.AlignWorkspace, "")
	financeExport      = register("finance-export", SinkFinance, finance.PostEntry, "reverse-finance-entry")
	reverseEntry       = register("reverse-finance-entry", SinkFinance, finance.PostEntry, "")
	refundEntry        = register("refund-entry", SinkFinance, finance.PostEntry, "")
	refundReversal     = register("refund-reversal-entry", SinkFinance, finance.PostEntry, "")
	creditEntry        = register("credit-entry", SinkFinance, finance.PostEntry, "")
	creditReversal     = register("credit-reversal-entry", SinkFinance, finance.PostEntry, "")
	disputeEntry       = register("dispute-entry", SinkFinance, finance.PostEntry, "")
	orderEmail         = register("order-email", SinkMail, mail.SendLetter, "correction-notice")
	receiptEmail       = register("receipt-email", SinkMail, mail.SendLetter, "correction-notice")
	correctionNotice   = register("correction-notice", SinkMail, mail.SendLetter, "")
	endedNotice        = register("subscription-ended-notice", SinkMail, mail.SendLetter, "")
	actionNotice       = register("action-required-notice", SinkMail, mail.SendLetter, "")
	dunningNotice      = register("dunning-notice", SinkMail, mail.SendLetter, "")
	trialEndingNotice  = register("trial-ending-notice", SinkMail, mail.SendLetter, "")
	changedNotice      = register("subscription-changed-notice", SinkMail, mail.SendLetter, "")
	onboardingTask     = register("onboarding-task", SinkDatabase, tasks.OpenTask, "cancel-onboarding-task")
	cancelOnboarding   = register("cancel-onboarding-task", SinkDatabase, tasks.CancelTask, "")
	reconcileTask      = register("reconcile-task", SinkDatabase, tasks.OpenTask, "")
	releaseTask        = register("release-task", SinkDatabase, tasks.OpenTask, "")
	reviewTask         = register("review", SinkDatabase, tasks.OpenTask, "")
	closeReview        = register("close-review", SinkDatabase, tasks.CloseTask, "")
	relayEvent         = register("relay", SinkConsumers, consumers.RelayEvent, "")
)

// Kind is a kind of effect.
type Kind struct {
	// Name is the first part of the effect's keys.
	Name string
	// Sink names the outside system, or [SinkDatabase].
	Sink string
	// Undo names the kind that takes it back, "" where nothing does.
	Undo string
}

// Catalogue returns every kind of effect.
func Catalogue() []Kind { return slices.Clone(catalogue) }

// kind is a kind of effect with the activity that does it. N is the noun that the activity takes: a step whose noun
// does not fit its kind does not compile.
type kind[N any] struct {
	Kind
	activity func(context.Context, activities.EffectInput[N]) (effect.Result, error)
}

func register[N any](name, sink string, activity func(context.Context, activities.EffectInput[N]) (effect.Result, error), undo string) kind[N] {
	k := kind[N]{Kind{Name: name, Sink: sink, Undo: undo}, activity}
	catalogue = append(catalogue, k.Kind)
	return k
}

// key is the effect's key in the ledger.
func (k kind[N]) key(object string) string { return k.Name + ":" + object }

// step is one effect of the kind, under a key of its own: <kind>:<object>.
func (k kind[N]) step(object string, noun N) *step {
	return &step{
		kind: k.Name, sink: k.Sink, key: k.key(object), activity: k.activity,
		input: func(c effect.Call) any { return activities.EffectInput[N]{Effect: c, For: noun} },
	}
}
