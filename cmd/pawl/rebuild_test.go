package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestRebuild_CheckAndApply(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := connect(t, dsn)
	cfg, _ := s.open(t, dsn)
	if r := s.pawl(t, "rebuild", "--check"); r.code != 0 || !strings.Contains(r.out, "no difference") {
		t.Errorf("empty: exit %d, %s%s", r.code, r.out, r.err)
	}
	fact := billing.Fact{
		Subject: billing.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: "evt_1", ReceiptID: "00000000-0000-0000-0000-000000000001", OccurredAt: time.Now()},
		Kind:    billing.SubscriptionSeen, Object: "sub_1", Rank: billing.RankCreated, Origin: billing.FromEvent,
		Data: billing.Data{Subscription: &billing.SubscriptionFact{Status: "active", Account: "acme", Items: []billing.Item{{Price: "price_pro", Quantity: 1}}}},
	}
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := billing.Apply(t.Context(), tx, []billing.Fact{fact}, process.BillingPolicy(cfg), "apply", time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `update subscriptions set plan = 'starter'`); err != nil {
		t.Fatal(err)
	}
	r := s.pawl(t, "rebuild", "--check")
	if r.code != exitFailed || !strings.Contains(r.out, "plan is starter, and the facts say pro") {
		t.Errorf("drifted: exit %d, %s%s", r.code, r.out, r.err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "one of --check and --apply"},
		{[]string{"--check", "--apply", "acme"}, exitUsage, "one of --check and --apply"},
		{[]string{"--apply", "acme", "--why", "x"}, exitUsage, "--mode live or --mode test"},
		{[]string{"--apply", "acme", "--mode", "live"}, exitUsage, "--why"},
		{[]string{"--apply", "acme", "--mode", "live", "--dry-run"}, exitFailed, ""},
		{[]string{"--apply", "acme", "--mode", "test", "--dry-run"}, exitFailed, `no account "acme" of mode test`},
		{[]string{"--apply", "nobody", "--mode", "live", "--why", "x"}, exitFailed, `no account "nobody" of mode live`},
	} {
		r := s.pawl(t, append([]string{"rebuild"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.code, r.err, tt.code, tt.says)
		}
	}
	if r := s.pawl(t, "rebuild", "--apply", "acme", "--mode", "live", "--dry-run"); !strings.Contains(r.out, " rebuild --apply acme --mode live --why REASON\n") {
		t.Errorf("dry: %s", r.out)
	}
	if r := s.pawl(t, "rebuild", "--apply", "acme", "--mode", "live", "--who", "ann", "--why", "edited by hand"); r.code != 0 || !strings.Contains(r.out, " repaired, from 1 object") {
		t.Errorf("apply: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := s.pawl(t, "rebuild", "--check", "--json"); r.code != 0 || len(decode[rebuildReport](t, r).Differences) != 0 {
		t.Errorf("repaired: exit %d, %s%s", r.code, r.out, r.err)
	}
	var before string
	if err := conn.QueryRow(t.Context(), `select before::text from operator_actions where action = 'rebuild' and actor like 'uid:% ann'`).Scan(&before); err != nil || !strings.Contains(before, "subscriptions sub_1") {
		t.Errorf("the trail says %q (%v)", before, err)
	}
}
