package billing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

func linksOf(t *testing.T, pool *pgxpool.Pool) (list []string) {
	t.Helper()
	links, err := billing.Links(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		list = append(list, fmt.Sprint(l.Mode, " ", l.Connected, " ", l.Account, " ", l.Actor))
		if time.Since(l.Since) > time.Minute {
			t.Errorf("since %s", l.Since)
		}
	}
	return list
}

// The active rules include the links. Each link contains the change that set it, and not a later change that kept it.
// A process whose source has a table of links adds them to its rules, and proposes no other change. An account in the
// process's own configuration file takes precedence.
func TestLinks_OfActiveRules_WithActorAndReason(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	eight, ten := fact.Connected{Mode: "live", ID: "acct_8"}, fact.Connected{Mode: "live", ID: "acct_10"}
	propose(t, pool, policy)
	switchTo(t, pool, policy.With(eight, "acme"))
	switchTo(t, pool, policy.With(eight, "acme").With(ten, "hooli"))
	if got, want := linksOf(t, pool), []string{"live acct_10 hooli ada", "live acct_8 acme ada", "live acct_9 umbrella a worker"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	active, err := billing.ActiveRulesHash(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		linked []string
		own    string
		same   bool
	}{
		"a table": {[]string{"live"}, "umbrella", true}, "no table": {nil, "umbrella", false}, "of another mode": {[]string{"test"}, "umbrella", false},
		"another account in the file": {[]string{"live"}, "acme", false},
	} {
		own := policy.With(fact.Connected{Mode: "live", ID: "acct_9"}, tt.own)
		own.Linked = tt.linked
		proposed, found, err := billing.Propose(t.Context(), pool, own, name)
		if err != nil || found != active || (proposed == active) != tt.same {
			t.Errorf("%s: proposes %s where %s is active, %v", name, proposed, found, err)
		}
	}
}

// Changing a link affects only the two accounts between which it moves objects. Rules that were proposed before
// another change was applied are no longer listed as proposals.
func TestCheckSwitch_LinkedOtherwise_HitsBothAccounts(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(100)
	newer := policy.With(fact.Connected{Mode: "live", ID: "acct_9"}, "initech")
	propose(t, pool, policy)
	propose(t, pool, newer)
	deliverWith(t, pool, policy, now, events([]fact.Fact{
		created(0, "active", "pro", of("sub_2", "", "cus_2"), connected), created(1, "active", "pro"),
	}, false)...)
	var got []string
	for _, h := range forecast(t, pool, policy, newer, now).Impacts {
		got = append(got, fmt.Sprint(h.Account, " ", h.Change, " ", h.Destructive()))
	}
	if want := []string{"umbrella loses access true", "initech gains access true"}; !slices.Equal(got, want) {
		t.Errorf("hit: %q, want %q", got, want)
	}
	proposals := func(want int) {
		t.Helper()
		if list, err := billing.Proposals(t.Context(), pool); err != nil || len(list) != want {
			t.Errorf("proposals %+v, %v, want %d", list, err, want)
		}
	}
	proposals(1)
	switchTo(t, pool, newer)
	proposals(0)
	propose(t, pool, policy)
	proposals(1)
}
