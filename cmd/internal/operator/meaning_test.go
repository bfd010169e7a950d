package operator_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/billing/fact"
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

// A connected account is linked only in a mode whose source has a table of them, and only where the configuration does
// not map it.
func TestDiffLink_NoTableOrMapped_Refused(t *testing.T) {
	t.Parallel()
	own := fact.Policy{Linked: []string{"live"}, Accounts: map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "acme"}}
	for of, want := range map[fact.Connected]string{
		{Mode: "test", ID: "acct_10"}: "accounts: {table: true}",
		{Mode: "live", ID: "acct_9"}:  "the configuration maps acct_9 to acme",
	} {
		if _, err := operator.DiffLink(t.Context(), nil, own, of, "acme", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", of, err, want)
		}
	}
}
