package operator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/timeline"
)

// What is offered is what would be taken: nothing is said to be possible that is refused.
func TestChoices(t *testing.T) {
	t.Parallel()
	failed, uncertain := timeline.Effect{Key: "finance-export:x", State: "failed"}, timeline.Effect{Key: "receipt-email:x", State: "uncertain"}
	parked := func(code string, effects ...timeline.Effect) timeline.Event {
		return timeline.Event{Effects: effects, Receipt: timeline.Receipt{
			Provider: "stripe", Type: "invoice.paid", EventID: "evt_1", Status: "needs_review", ReasonCode: code, WorkflowID: "stripe:evt_1",
		}}
	}
	with := func(e timeline.Event, change func(*timeline.Receipt)) timeline.Event {
		change(&e.Receipt)
		return e
	}
	for name, c := range map[string]struct {
		event timeline.Event
		want  []string
	}{
		"not parked": {with(parked(""), func(r *timeline.Receipt) { r.Status = "retrying" }), nil},
		"by a rule":  {parked("plan_unknown"), []string{"retry", "skip", "compensate"}},
		"one effect": {with(parked("", failed), func(r *timeline.Receipt) { r.Status = "dead" }), []string{"retry", "skip --effect finance-export:x", "compensate"}},
		"two effects": {parked("", failed, uncertain), []string{
			"retry", "skip --effect finance-export:x", "skip --effect receipt-email:x", "skip", "compensate",
		}},
		"what cannot be taken back": {with(parked("", failed), func(r *timeline.Receipt) { r.Type = "moon.risen" }), []string{"retry", "skip --effect finance-export:x"}},
		"a second source's":         {with(parked("", failed), func(r *timeline.Receipt) { r.RelayOf = "evt_0" }), []string{"retry", "skip --effect finance-export:x"}},
		"taken back already":        {parked("", failed, timeline.Effect{Key: "apply-facts:x", State: "compensated"}), []string{"retry", "skip --effect finance-export:x"}},
		"never ran":                 {with(parked("suspected_replay"), func(r *timeline.Receipt) { r.WorkflowID = "" }), []string{"run"}},
		"another receipt's run":     {parked("another_run"), []string{"run"}},
		"its run was ended":         {parked("run_ended"), []string{"temporal", "run"}},
		"its run is stuck":          {parked("run_stuck"), []string{"temporal"}},
	} {
		var got []string
		for _, choice := range operator.Choices("evt_1", &c.event) {
			line := strings.Join(choice.Command, " ")
			if choice.Command[0] == "temporal" {
				if line != "temporal workflow reset --workflow-id stripe:evt_1 --type FirstWorkflowTask --reason REASON" {
					t.Errorf("%s: %s", name, line)
				}
				got = append(got, "temporal")
				continue
			}
			line = strings.TrimSuffix(strings.TrimPrefix(line, "pawl events "), " --why REASON")
			got = append(got, strings.Replace(line, " evt_1", "", 1))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
