package workflows

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// These are the receiver types of the activities. The flows use only their method values, as names of the activities. A
// worker registers a receiver of each type.
var (
	billingState = receiver[activities.Billing]()
	workspaces   = receiver[activities.Workspaces]()
	finance      = receiver[activities.Finance]()
	mail         = receiver[activities.Mail]()
	tasks        = receiver[activities.Tasks]()
	destinations = receiver[activities.Destinations]()
	runs         = receiver[activities.Runs]()
	objects      = receiver[activities.Objects]()
)

// receivers lists the types of the receivers above.
var receivers []reflect.Type

func receiver[T any]() *T {
	receivers = append(receivers, reflect.TypeFor[*T]())
	return nil
}

// CheckReceivers returns an error if registered lacks a receiver that the flows need. Without this check, Temporal
// would retry the activities of the missing receiver until their timeout.
func CheckReceivers(registered []any) error {
	var faults []error
	for _, needed := range receivers {
		if !slices.ContainsFunc(registered, func(r any) bool { return reflect.TypeOf(r) == needed }) {
			faults = append(faults, fmt.Errorf("no %s is registered, and flows run its activities: add one to Equip in cmd/internal/process/worker.go", needed))
		}
	}
	for _, name := range []string{ActivityWorkOnJob, ActivityStopJob, ActivityReconcileDue, ActivityFindGaps,
		ActivityExamineEndpoint} {
		has := func(r any) bool { _, found := reflect.TypeOf(r).MethodByName(name); return found }
		if !slices.ContainsFunc(registered, has) {
			faults = append(faults, fmt.Errorf("no registered receiver has the activity %s: add one to forRuns in cmd/internal/process/receivers.go", name))
		}
	}
	return errors.Join(faults...)
}

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
)

// The catalogue lists every kind of effect, in the order of execution. Ledger keys contain the name of a kind, so never
// change a name.
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
	reviewTask       = register("review", SinkDatabase, tasks.OpenTask, Outlook.ForecastTask, "reject-review")
	closeReview      = register("close-review", SinkDatabase, tasks.CloseTask, Outlook.ForecastTask, "")
	rejectReview     = register("reject-review", SinkDatabase, tasks.CloseTask, Outlook.ForecastTask, "")
	relayEvent       = register("relay", SinkDestinations, destinations.RelayEvent, Outlook.ForecastRelay, "")
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

// kind is a kind of effect. N is the type of its activity's input and of its forecast's input, so the compiler rejects
// a step with another input.
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

// step returns an effect of this kind with the key <kind>:<object>.
func (k kind[N]) step(object string, noun N) *step {
	return &step{kind: k.Name, sink: k.Sink, key: k.key(object), work: work[N]{k, noun}}
}

// worker is the work of a step, independent of its input type.
type worker interface {
	start(workflow.Context, starter, effect.Call) workflow.Future
	forecast(context.Context, Outlook, effect.Call) (activities.Forecast, error)
	// entry returns the finance entry that the step posts, or nil for any other effect.
	entry() *activities.Entry
}

// starter starts an activity, either as a local activity or as a regular one.
type starter func(ctx workflow.Context, activity any, input ...any) workflow.Future

// work is the activity of a kind with one input.
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
