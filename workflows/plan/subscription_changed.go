package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// SubscriptionChanged plans a subscription that began or changed its plan, seats or status: access and workspace
// follow the present grant. The customer gets an e-mail about another plan, other seats or a planned end.
func SubscriptionChanged(c fold.Change, _ activities.Planning) Plan {
	return Plan{Steps: workspaceSteps(c)}
}
