package workflows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	steps "github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/workflows/jobs"
	"github.com/pawlhq/pawl/workflows/plan"
	"github.com/pawlhq/pawl/workflows/schedules"
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
	configured   = receiver[steps.Flows]()
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
	for _, name := range []string{jobs.ActivityWork, jobs.ActivityStop, schedules.ActivityReconcileDue,
		schedules.ActivityFindGaps, schedules.ActivityExamineEndpoint, schedules.ActivityDeleteExpired} {
		has := func(r any) bool { _, found := reflect.TypeOf(r).MethodByName(name); return found }
		if !slices.ContainsFunc(registered, has) {
			faults = append(faults, fmt.Errorf("no registered receiver has the activity %s: add one to forRuns in cmd/internal/process/receivers.go", name))
		}
	}
	return errors.Join(faults...)
}

// executors holds the executor of each kind of effect, by the name of the kind.
var executors = join(
	executes(objects.FetchObject, Outlook.ForecastFetch, plan.FetchObject),
	executes(billingState.ApplyFacts, Outlook.ForecastFacts, plan.ApplyFacts),
	executes(billingState.WithholdGrant, Outlook.ForecastWithholding, plan.WithholdGrant),
	executes(billingState.ApplyDue, Outlook.ForecastDue, plan.ApplyDue),
	executes(workspaces.ProvisionWorkspace, Outlook.ForecastWorkspace, plan.ProvisionWorkspace),
	executes(workspaces.AlignWorkspace, Outlook.ForecastAlignment, plan.AlignWorkspace),
	executes(finance.PostEntry, Outlook.ForecastEntry, plan.FinanceExport, plan.ReverseEntry, plan.RefundEntry,
		plan.RefundReversal, plan.CreditEntry, plan.CreditReversal, plan.DisputeEntry, plan.FinanceCorrection),
	executes(mail.SendLetter, Outlook.ForecastLetter, plan.OrderEmail, plan.ReceiptEmail, plan.CorrectionNotice,
		plan.EndedNotice, plan.AccessEndingNotice, plan.AccessEndedNotice, plan.ActionNotice, plan.DunningNotice,
		plan.TrialEndingNotice, plan.ChangedNotice),
	executes(tasks.OpenTask, Outlook.ForecastTask, plan.OnboardingTask, plan.ReconcileTask, plan.AccountTask,
		plan.ReleaseTask, plan.ReviewTask),
	executes(tasks.CancelTask, Outlook.ForecastTask, plan.CancelOnboarding),
	executes(tasks.CloseTask, Outlook.ForecastTask, plan.CloseReview, plan.RejectReview),
	executes(destinations.RelayEvent, Outlook.ForecastRelay, plan.RelayEvent),
	executes(configured.RunFlowStep, Outlook.ForecastStep, plan.FlowRequest, plan.FlowWorkflow, plan.FlowTask),
	executes(configured.UndoFlowStep, Outlook.ForecastStep, plan.UndoFlowRequest, plan.UndoFlowWorkflow,
		plan.CancelFlowTask),
)

// executor executes and forecasts the effects of one kind. The type of input is the input type of the kind.
type executor interface {
	start(ctx workflow.Context, start starter, call effect.Call, input any) workflow.Future
	forecast(ctx context.Context, o Outlook, call effect.Call, input any) (activities.Forecast, error)
}

// starter starts an activity, either as a local activity or as a regular one.
type starter func(ctx workflow.Context, activity any, input ...any) workflow.Future

// work is the [executor] of a kind of effect: the activity that executes an effect, and the function that forecasts the
// result. Both have an input of type N.
type work[N any] struct {
	activity func(context.Context, activities.EffectInput[N]) (effect.Result, error)
	outlook  func(Outlook, context.Context, activities.EffectInput[N]) (activities.Forecast, error)
}

// executes returns the executors of kinds with the same activity and forecast.
func executes[N any](
	activity func(context.Context, activities.EffectInput[N]) (effect.Result, error),
	forecast func(Outlook, context.Context, activities.EffectInput[N]) (activities.Forecast, error),
	kinds ...plan.KindOf[N],
) map[string]executor {
	all := map[string]executor{}
	for _, kind := range kinds {
		all[kind.Name] = work[N]{activity, forecast}
	}
	return all
}

func join(lists ...map[string]executor) map[string]executor {
	all := map[string]executor{}
	for _, some := range lists {
		maps.Copy(all, some)
	}
	return all
}

func (w work[N]) start(ctx workflow.Context, start starter, call effect.Call, input any) workflow.Future {
	return start(ctx, w.activity, effectInput[N](call, input))
}

func (w work[N]) forecast(ctx context.Context, o Outlook, call effect.Call, input any) (activities.Forecast, error) {
	return w.outlook(o, ctx, effectInput[N](call, input))
}

func effectInput[N any](call effect.Call, input any) activities.EffectInput[N] {
	return activities.EffectInput[N]{Effect: call, For: input.(N)}
}
