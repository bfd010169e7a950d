package effect

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// TypeNotDone is the type of an activity's error if the effect is refused, failed or uncertain. Temporal does not retry
// it. The details of the error are the [Result]. Histories contain the type.
const TypeNotDone = "EffectNotDone"

// NotDone decodes the result from an activity error of TypeNotDone. It reports whether err is such an error.
func NotDone(err error, result any) bool {
	var failed *temporal.ApplicationError
	return errors.As(err, &failed) && failed.Type() == TypeNotDone && failed.Details(result) == nil
}

// ShowNotDone makes an activity fail if its effect is not done. Otherwise the Temporal UI would show the activity as
// completed. The flow gets the same result in both cases.
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
