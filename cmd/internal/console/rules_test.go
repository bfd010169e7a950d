package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Both people who activate other billing rules see the changed settings, and the affected accounts with their access
// before and after the change.
func TestRules_BothPeopleSeeTheChanges(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.operator.FourEyes = true
	policy := func(plan string) fact.Policy {
		return fact.Policy{Prices: map[string]fact.Price{"price_pro": {Plan: plan}}}
	}
	propose := func(plan string) string {
		t.Helper()
		hash, _, err := billing.Propose(t.Context(), s.db, policy(plan), "worker")
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	propose("pro")
	var facts []fact.Fact
	for i := range 22 {
		facts = append(facts, fact.Fact{
			Subject: fact.Subject{Provider: "stripe", Mode: "live", Customer: fmt.Sprint("cus_", i), EventID: fmt.Sprint("evt_", i), ReceiptID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), OccurredAt: time.Now()},
			Kind:    fact.SubscriptionSeen, Object: fmt.Sprint("sub_", i), Rank: fact.RankCreated, Origin: fact.FromEvent,
			Data: fact.Data{Subscription: &fact.Subscription{Status: "active", Account: fmt.Sprintf("acct-%02d", i), Items: []fact.Item{{Price: "price_pro", Quantity: 1}}}},
		})
	}
	for _, one := range facts {
		tx, err := s.db.Begin(t.Context())
		if err == nil {
			_, err = billing.Apply(t.Context(), tx, []fact.Fact{one}, policy("pro"), "apply", time.Now())
		}
		if err == nil {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hash := propose("starter")
	ada, bob := s.as("ada", role.Admin), s.as("bob", role.Admin)
	sees := func(b *browser, href string) {
		t.Helper()
		words := b.get(href).words()
		for _, want := range []string{"affects 22 accounts", "price_pro pro starter", "acct-00 Live pro becomes starter pro starter", "acct-19", "2 further accounts"} {
			if !strings.Contains(words, want) {
				t.Errorf("%s lacks %q: %s", href, want, words)
			}
		}
		if strings.Contains(words, "acct-20") {
			t.Errorf("%s lists more than 20 accounts: %s", href, words)
		}
	}
	if now := ada.get("/").text; !strings.Contains(now, `href="/rules"`) || strings.Contains(now, "pawl rules diff") {
		t.Errorf("Now does not lead to the rules: %s", now)
	}
	if page := ada.get("/rules").words(); !strings.Contains(page, "Apply "+hash) {
		t.Errorf("the rules: %s", page)
	}
	sees(ada, "/decide?verb=apply-rules&target="+hash)
	if got := ada.post("/decide", url.Values{"verb": {"apply-rules"}, "target": {hash}, "reason": {"agreed"}, "request": {"A"}}); !strings.Contains(got.text, "Waits for a second person") {
		t.Fatalf("ada: %s", got.words())
	}
	link := regexp.MustCompile(`href="(/decide[^"]*)"[^>]*>Check and confirm<`).FindStringSubmatch(bob.get("/approvals").text)
	if link == nil {
		t.Fatal("bob finds no confirmation")
	}
	sees(bob, strings.ReplaceAll(link[1], "&amp;", "&"))
}
