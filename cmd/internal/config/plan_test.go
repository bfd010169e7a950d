package config_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func TestLoad_Plans(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, noSinks+`
plans:
  prices: {price_pro: pro, price_storage: {adds: [storage]}, price_once: {plan: starter, for: 365d}}
  features: {pro: [api], starter: []}
  order: [starter, pro]
policy: {past_due_grace: 1d12h, on_subscription_end: period_end, dispute: hold, emails: {receipt: stripe}, dunning: [0d, 2d], access_ending_notice: 0d, on_unknown_price: ignore, auto_apply: 0}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]config.Price{
		"price_pro": {Plan: "pro"}, "price_storage": {Adds: []string{"storage"}}, "price_once": {Plan: "starter", For: 365 * 24 * time.Hour},
	}
	if !reflect.DeepEqual(cfg.Plans.Prices, want) {
		t.Errorf("prices %+v, want %+v", cfg.Plans.Prices, want)
	}
	emails := config.EmailSenders{Receipt: "stripe", Dunning: "pawl", Trial: "pawl"}
	if want := (config.Policy{PastDueGrace: 36 * time.Hour, DunningMinInterval: 24 * time.Hour, RenewalGrace: 96 * time.Hour, OnSubscriptionEnd: "period_end", OnWorkflowCancel: "park", ZeroInvoices: "ignore", FullRefund: "keep", Dispute: "hold", DisputeLost: "keep", Emails: emails,
		GrantPlanOn: "change", OnUnknownPrice: "ignore", Dunning: []time.Duration{0, 48 * time.Hour}, AccountFrom: "named", SubscriptionWait: 10 * time.Minute, WorkspaceRetention: 720 * time.Hour, Reconcile: 168 * time.Hour, Backfill: "auto", Endpoint: "watch"}); !reflect.DeepEqual(cfg.Policy, want) {
		t.Errorf("policy %+v, want %+v", cfg.Policy, want)
	}
	if set := cfg.Email.Set; !set.Off("receipt") || set.Off("action-required") || set.Off("correction") {
		t.Error("want the receipt to be off, which Stripe sends, and no other letter")
	}
	alone, err := load(t, valid)
	if err != nil || !slices.Equal(alone.Plans.Order, []string{"pro"}) {
		t.Errorf("one plan: %v; want it to need no order", err)
	}
}

func TestLoad_Plans_Faults(t *testing.T) {
	t.Parallel()
	wantFaults(t, faultsOf(t, noSinks+`
plans:
  prices: {price_x: {plan: pro, adds: [api]}, price_y: {for: 1d}, price_z: {plan: team, for: -1d}, price_w: {adds: [api], seats: none}, price_v: {plan: pro, seats: some}}
  ignore: [price_x]
  features: {pro: [api], starter: []}
policy: {past_due_grace: 3 weeks, renewal_grace: -4d, on_subscription_end: never, on_workflow_cancel: "no", zero_invoices: perhaps, full_refund: half, dispute: end, dispute_lost: hold, on_unknown_price: guess, dunning: 3d, workspace_retention: -1d, auto_apply: -1, emails: {trial: me}, grant_plan_on: order}
`), map[string]string{
		"plans.prices.price_x":       "has both a plan and added features",
		"plans.prices.price_y":       "has no plan and no features",
		"plans.prices.price_z":       "is not in plans.features",
		"plans.prices.price_z.for":   "negative",
		"plans.ignore[0]":            "is also in plans.prices",
		"plans.prices.price_w.seats": "without a plan, which has no seats",
		"plans.prices.price_v.seats": "quantity or none",
		"plans.order":                "lowest first: an account with two plans gets the highest. By name they are pro, starter",
		"policy.past_due_grace":      "such as 30s, 5m, 24h or 21d",
		"policy.renewal_grace":       "negative",
		"policy.on_subscription_end": "at_once or period_end",
		"policy.on_workflow_cancel":  "park or compensate",
		"policy.zero_invoices":       "ignore or book",
		"policy.full_refund":         "keep or end",
		"policy.dispute":             "keep or hold",
		"policy.dispute_lost":        "keep or end",
		"policy.dunning":             "is not a list",
		"policy.workspace_retention": "negative",
		"policy.auto_apply":          "negative",
		"policy.emails.trial":        "pawl or stripe",
		"policy.grant_plan_on":       "change or payment",
		"policy.on_unknown_price":    "open_task or ignore",
	})
	wantFaults(t, faultsOf(t, noSinks+"policy: {on_workflow_cancel: compensate, four_eyes: true}\n"), map[string]string{
		"policy.on_workflow_cancel": "requires two people",
	})
	wantFaults(t, faultsOf(t, noSinks+"policy: {dunning: [0d, 7d, 3d, -1d]}\n"), map[string]string{
		"policy.dunning[2]": "(line 4): is not later than", "policy.dunning[3]": "negative",
	})
	wantFaults(t, faultsOf(t, noSinks+"plans: {features: {pro: [api], starter: [], team: []}, order: [starter, pro, pro, gold]}\n"), map[string]string{
		"plans.order":    `does not contain "team"`,
		"plans.order[2]": "is listed twice",
		"plans.order[3]": "is not in plans.features",
	})
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "21d": 504 * time.Hour, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "-2d": -48 * time.Hour} {
		if got, err := config.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q = %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "3", "1.5d", "12h1d", "1d2", "99999d"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q = %s, want a refusal", text, got)
		}
	}
}
