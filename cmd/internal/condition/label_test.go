package condition_test

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
)

// Every kind of condition has a label. Two kinds with the same label would look the same on the page Now.
func TestTable_EveryKind_HasALabel(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{}
	for _, k := range condition.Table() {
		text, known := label.Condition(k.Name)
		if !known {
			t.Errorf("kind %s has no label: add it to conditions in package label", k.Name)
		}
		if other := kinds[text]; other != "" {
			t.Errorf("kinds %s and %s have the same label %q", other, k.Name, text)
		}
		kinds[text] = k.Name
	}
}
