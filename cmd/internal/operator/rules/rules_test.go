package rules_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// A connected account can be linked only in a mode whose source has a table of connected accounts, and only if the
// configuration does not map it.
func TestDiffLink_NoTableOrMapped_Refused(t *testing.T) {
	t.Parallel()
	own := fact.Policy{Linked: []string{"live"}, Accounts: map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "acme"}}
	for of, want := range map[fact.Connected]string{
		{Mode: "test", ID: "acct_10"}: "accounts: {table: true}",
		{Mode: "live", ID: "acct_9"}:  "the configuration maps acct_9 to acme",
	} {
		if _, err := rules.CompareLink(t.Context(), nil, own, of, "acme", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", of, err, want)
		}
	}
}
