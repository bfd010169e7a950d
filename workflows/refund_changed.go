package workflows

import "go.temporal.io/sdk/workflow"

// RefundChanged is what happens when money is paid back, or is not after all: it is booked, and access ends after a
// full refund where that is the policy.
func RefundChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return refundChanged.run(ctx, in)
}

var refundChanged = billingPlan{flow: "RefundChanged", make: planMoney, forGood: true}
