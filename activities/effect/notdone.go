package effect

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// TypeNotDone is the type of an activity's error when no further try will do its effect: it is refused, failed or
// uncertain. The error's details are the [Result]. It stands in histories.
const TypeNotDone = "EffectNotDone"

// NotDone reads what an effect came to from the error that its activity ended with, and reports whether it was one of
// TypeNotDone.
func NotDone(err error, result any) bool {
	var told *temporal.ApplicationError
	return errors.As(err, &told) && told.Type() == TypeNotDone && told.Details(result) == nil
}

// ShowNotDone makes the activities of a worker fail whose effects are not done: Temporal's pages would show them as
// completed otherwise, in green, beside those that are. The flow gets the same result either way.
type ShowNotDone struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements [interceptor.WorkerInterceptor].
func (*ShowNotDone) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &showNotDone{}
	i.Next = next
	return i
}

type showNotDone struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements [interceptor.ActivityInboundInterceptor].
func (i *showNotDone) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	value, err := i.Next.ExecuteActivity(ctx, in)
	result, ok := value.(Result)
	if err != nil || !ok || (result.State != Failed && result.State != Refused && result.State != Uncertain) {
		return value, err
	}
	return nil, temporal.NewApplicationErrorWithOptions(activity.GetInfo(ctx).ActivityType.Name+": the effect is "+
		string(result.State)+": "+result.Reason, TypeNotDone,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result},
			Category: temporal.ApplicationErrorCategoryBenign})
}
