package workflows_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/workflows"
)

// A kind without a sink would be tried by nobody's time-out, and one with an undo that is not there could not be taken
// back.
func TestCatalogue_EachKind_OnceWithSinkAndUndo(t *testing.T) {
	t.Parallel()
	sinks := []string{workflows.SinkDatabase, workflows.SinkWorkspaces, workflows.SinkFinance, workflows.SinkMail, workflows.SinkConsumers}
	kinds := workflows.Catalogue()
	seen := map[string]int{}
	for _, k := range kinds {
		seen[k.Name]++
		if !slices.Contains(sinks, k.Sink) {
			t.Errorf("%s has the sink %q, which is none", k.Name, k.Sink)
		}
		if k.Undo != "" && !slices.ContainsFunc(kinds, func(o workflows.Kind) bool { return o.Name == k.Undo }) {
			t.Errorf("%s is undone by %q, which is no kind", k.Name, k.Undo)
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s stands %d times in the catalogue", name, n)
		}
	}
}

// An event type has one flow.
func TestFlows_EachType_OneFlow(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, flow := range workflows.Flows() {
		for provider, types := range flow.Types {
			for _, name := range types {
				if before, twice := of[provider+" "+name]; twice {
					t.Errorf("%s %s stands at %s and at %s", provider, name, before, flow.Name)
				}
				of[provider+" "+name] = flow.Name
				if workflows.Route(provider, name) != flow.Name {
					t.Errorf("%s %s is routed to %s", provider, name, workflows.Route(provider, name))
				}
			}
		}
	}
}
