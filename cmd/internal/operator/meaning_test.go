package operator_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// A kind of letter that no switch of the meaning calls for is refused, and the refusal names the kinds.
func TestCheckLetters_UnknownKind_RefusedWithTheKinds(t *testing.T) {
	t.Parallel()
	all := []string{"access-ended-notice", "subscription-changed-notice", "subscription-ended-notice"}
	for _, kinds := range [][]string{nil, {}, all[:1], all} {
		if err := operator.CheckLetters(kinds); err != nil {
			t.Errorf("%q: %v", kinds, err)
		}
	}
	for _, kinds := range [][]string{{""}, {"receipt-email"}, {all[0], "changed"}} {
		if err := operator.CheckLetters(kinds); err == nil || !strings.Contains(err.Error(), strings.Join(all, ", ")) {
			t.Errorf("%q: %v, want the kinds", kinds, err)
		}
	}
}
