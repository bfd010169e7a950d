package workflows

import "go.temporal.io/sdk/workflow"

// AccountLinked is what happens when an event says to which account of ours a customer or a subscription belongs: what
// the customer has moves there, and the workspaces of both accounts follow.
func AccountLinked(ctx workflow.Context, in EventInput) (EventResult, error) {
	return accountLinked.run(ctx, in)
}

var accountLinked = billingPlan{flow: "AccountLinked", make: planWorkspace}
