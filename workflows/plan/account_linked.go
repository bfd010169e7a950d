package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// AccountLinked plans events that only change access.
func AccountLinked(c fold.Change, _ activities.Planning) Plan {
	return Plan{Steps: workspaceSteps(c)}
}
