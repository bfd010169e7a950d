package plan_test

import (
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/workflows/plan"
)

// The preview of a parked run keeps the deliveries that the run has begun, and the deliveries that it has not decided.
func TestRelayed_DeliveriesOfParkedRun(t *testing.T) {
	t.Parallel()
	begun := func(name string, undecided bool) activities.Step {
		return activities.Step{Key: "relay:github:live:d-1:" + name, Kind: "relay", Undecided: undecided}
	}
	for name, tt := range map[string]struct {
		loaded        activities.LoadRelayResult
		steps         []activities.Step
		to, undecided string
	}{
		"a new run":               {activities.LoadRelayResult{Destinations: []string{"crm"}}, nil, "[crm]", "[]"},
		"undecided, now false":    {activities.LoadRelayResult{Left: activities.Left{Code: activities.CodeNotSelected}}, []activities.Step{begun("crm", true)}, "[crm]", "[crm]"},
		"decided, now false":      {activities.LoadRelayResult{}, []activities.Step{begun("crm", false)}, "[crm]", "[]"},
		"decided, now undecided":  {activities.LoadRelayResult{Destinations: []string{"crm"}, Undecided: []string{"crm"}}, []activities.Step{begun("crm", false)}, "[crm]", "[]"},
		"undecided, now true":     {activities.LoadRelayResult{Destinations: []string{"crm", "lake"}}, []activities.Step{begun("lake", true)}, "[crm lake]", "[lake]"},
		"a step that is no relay": {activities.LoadRelayResult{}, []activities.Step{{Key: "apply-facts:x:crm", Kind: "apply-facts"}}, "[]", "[]"},
	} {
		plan.Relayed(&tt.loaded, tt.steps)
		if got := tt.loaded; fmt.Sprint(got.Destinations) != tt.to || fmt.Sprint(got.Undecided) != tt.undecided || got.Left != (activities.Left{}) {
			t.Errorf("%s: %+v, want %s, undecided %s", name, got, tt.to, tt.undecided)
		}
	}
}
