package workflows

import (
	"context"
	"slices"

	"go.temporal.io/sdk/workflow"

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
	// SinkStripe is Stripe's API, which objects are fetched from.
	SinkStripe = "stripe"
	// SinkConsumers stands for all consumers of relayed events; each has settings under its own name.
	SinkConsumers = "consumers"
)

// The catalogue: every kind of effect, in the order in which an event comes to them. A kind's name stands in ledger
// keys and is never changed.
var (
	catalogue []Kind

	fetchObject = register("fetch-object", SinkStripe, objects.FetchObject, Outlook.ForecastFetch, "")
	applyFacts  = register("apply-facts", SinkDatabase, billingState.ApplyFacts, Outlook.ForecastFacts,
		"withhold-grant")
	withholdGrant = register("withhold-grant", SinkDatabase, billingState.WithholdGrant,
		Outlook.ForecastWithholding, "")
	applyDue           = register("apply-due", SinkDatabase, billingState.ApplyDue, Outlook.ForecastDue, "")
	provisionWorkspace = register("provision-workspace", SinkWorkspaces, workspaces.ProvisionWorkspace,
		Outlook.ForecastWorkspace, "")
	alignWorkspace = register("align-workspace", SinkWorkspaces, workspaces.AlignWorkspace,
		Outlook.ForecastAlignment, "")
	financeExport      = registerEntry("finance-export", "reverse-finance-entry")
	reverseEntry       = registerEntry("reverse-finance-entry", "")
	refundEntry        = registerEntry("refund-entry", "")
	refundReversal     = registerEntry("refund-reversal-entry", "")
	creditEntry        = registerEntry("credit-entry", "")
	creditReversal     = registerEntry("credit-reversal-entry", "")
	disputeEntry       = registerEntry("dispute-entry", "")
	financeCorrection  = registerEntry("finance-correction", "")
	orderEmail         = registerLetter("order-email", "correction-notice")
	receiptEmail       = registerLetter("receipt-email", "correction-notice")
	correctionNotice   = registerLetter("correction-notice", "")
	endedNotice        = registerLetter("subscription-ended-notice", "")
	accessEndingNotice = registerLetter("access-ending-notice", "")
	accessEndedNotice  = registerLetter("access-ended-notice", "")
	actionNotice       = registerLetter("action-required-notice", "")
	dunningNotice      = registerLetter("dunning-notice", "")
	trialEndingNotice  = registerLetter("trial-ending-notice", "")
	changedNotice      = registerLetter("subscription-changed-notice", "")
	onboardingTask     = register("onboarding-task", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask,
		"cancel-onboarding-task")
	cancelOnboarding = register("cancel-onboarding-task", SinkDatabase, tasks.CancelTask, Outlook.ForecastTask, "")
	reconcileTask    = register("reconcile-task", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask, "")
	accountTask      = register("account-task", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask, "")
	releaseTask      = register("release-task", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask, "")
	reviewTask       = register("review", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask, "")
	closeReview      = register("close-review", SinkDatabase, tasks.CloseTask, Outlook.ForecastTask, "")
	relayEvent       = register("relay", SinkConsumers, consumers.RelayEvent, Outlook.ForecastRelay, "")
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

// kind is a kind of effect. N is the noun that its activity takes: a step whose noun does not fit its kind does not
// compile, and neither does a kind without a forecast of that noun.
type kind[N any] struct {
	Kind
	activity func(context.Context, activities.EffectInput[N]) (effect.Result, error)
	forecast func(Outlook, context.Context, activities.EffectInput[N]) (activities.Forecast, error)
}

func register[N any](
	name, sink string,
	activity func(context.Context, activities.EffectInput[N]) (effect.Result, error),
	forecast func(Outlook, context.Context, activities.EffectInput[N]) (activities.Forecast, error),
	undo string,
) kind[N] {
	k := kind[N]{Kind{Name: name, Sink: sink, Undo: undo}, activity, forecast}
	catalogue = append(catalogue, k.Kind)
	return k
}

func registerEntry(name, undo string) kind[activities.Entry] {
	return register(name, SinkFinance, finance.PostEntry, Outlook.ForecastEntry, undo)
}

func registerLetter(name, undo string) kind[activities.Letter] {
	return register(name, SinkMail, mail.SendLetter, Outlook.ForecastLetter, undo)
}

func (k kind[N]) key(object string) string { return k.Name + ":" + object }

// step is one effect of the kind, under a key of its own: <kind>:<object>.
func (k kind[N]) step(object string, noun N) *step {
	return &step{kind: k.Name, sink: k.Sink, key: k.key(object), work: work[N]{k, noun}}
}

// worker is the work of a step, whatever its noun.
type worker interface {
	start(workflow.Context, starter, effect.Call) workflow.Future
	forecast(context.Context, Outlook, effect.Call) (activities.Forecast, error)
	// entry is the entry that it books, nil for any other effect.
	entry() *activities.Entry
}

// starter starts an activity, as a local or a regular one.
type starter func(ctx workflow.Context, activity any, input ...any) workflow.Future

// work is what a step does: a kind's activity, for one noun.
type work[N any] struct {
	kind kind[N]
	noun N
}

func (w work[N]) input(c effect.Call) activities.EffectInput[N] {
	return activities.EffectInput[N]{Effect: c, For: w.noun}
}

func (w work[N]) start(ctx workflow.Context, start starter, c effect.Call) workflow.Future {
	return start(ctx, w.kind.activity, w.input(c))
}

func (w work[N]) forecast(ctx context.Context, o Outlook, c effect.Call) (activities.Forecast, error) {
	return w.kind.forecast(o, ctx, w.input(c))
}

func (w work[N]) entry() *activities.Entry {
	entry, _ := any(&w.noun).(*activities.Entry)
	return entry
}
