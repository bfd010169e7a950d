package workflows

import "go.temporal.io/sdk/workflow"

// DisputeChanged is what happens when a charge is disputed, or suspected by the card's issuer: what moves because of
// it is booked, access is held or ended where that is the policy. The tasks about it, to hand in evidence or to
// refund the charge first, follow from the facts and stand there once they are applied.
func DisputeChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return disputeChanged.run(ctx, in)
}

var disputeChanged = billingPlan{flow: "DisputeChanged", make: planMoney, forGood: true}
