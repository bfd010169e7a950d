package workflows

import "go.temporal.io/sdk/workflow"

// Record keeps what an event says. Nothing else follows from it, unless it says whose the object is.
func Record(ctx workflow.Context, in EventInput) (EventResult, error) {
	return record.run(ctx, in)
}

var record = billingPlan{flow: "Record", make: planRecord}
