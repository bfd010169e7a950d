package plan_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/workflows/plan"
)

// A kind of effect without a sink would have no timeout, and a kind with an unknown undo could not be compensated.
func TestCatalogue_EachKind_OnceWithSinkAndUndo(t *testing.T) {
	t.Parallel()
	sinks := []string{plan.SinkDatabase, plan.SinkWorkspaces, plan.SinkFinance, plan.SinkMail, plan.SinkStripe, plan.SinkDestinations, plan.SinkFlows}
	kinds := plan.Catalogue()
	seen := map[string]int{}
	for _, k := range kinds {
		seen[k.Name]++
		if !slices.Contains(sinks, k.Sink) {
			t.Errorf("%s has the unknown sink %q", k.Name, k.Sink)
		}
		if k.Undo != "" && !slices.ContainsFunc(kinds, func(o plan.Kind) bool { return o.Name == k.Undo }) {
			t.Errorf("%s is undone by %q, which is no kind", k.Name, k.Undo)
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is in the catalogue %d times", name, n)
		}
	}
}
