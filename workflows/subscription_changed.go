package workflows

import "go.temporal.io/sdk/workflow"

// SubscriptionChanged is what happens when a subscription begins, or changes its plan, its seats or its status: access
// and workspace are brought to what it grants now.
func SubscriptionChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return runBilling(ctx, "SubscriptionChanged", in, planWorkspace)
}
