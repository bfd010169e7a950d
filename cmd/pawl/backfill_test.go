package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/doctor"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/cash"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/schematest"
)

// withSandbox is a stack with a source whose API key works at the simulated Stripe of the sandbox.
func withSandbox(t *testing.T, source string) (stack, string) {
	t.Helper()
	dsn := schematest.NewDSN(t)
	stripe, err := sandbox.Start(t.Context(), sandbox.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stripe.Close() })
	s := setup(t, dsn, map[string]string{source: "stripe"}).with("KEY", "rk_live_1")
	write(t, s.file, strings.Replace(read(t, s.file), "mode: live", "mode: live, api_key: env:KEY, api_url: '"+stripe.URL()+"/stripe'", 1))
	return s, dsn
}

// Events that were never delivered are listed, stored once, and not listed again.
func TestBackfill_Undelivered_ListedThenStored(t *testing.T) {
	t.Parallel()
	s, dsn := withSandbox(t, "billing")
	if got := s.pawl(t, "events", "backfill", "billing", "--from", "1h"); got.code != 0 || !strings.HasPrefix(got.out, "no gap between ") {
		t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
	}
	for _, id := range []string{"evt_lost_1", "evt_lost_2"} {
		if got := s.pawl(t, "send", "--source", "billing", "--type", "invoice.paid", "--event-id", id, "--undelivered"); got.code != 0 || !strings.Contains(got.out, "undelivered") {
			t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
		}
	}
	got := s.pawl(t, "events", "backfill", "billing", "--from", "60d")
	if got.code != 1 || !strings.Contains(got.out, "evt_lost_1") || !strings.Contains(got.out, "2 events never came between ") || !strings.Contains(got.out, "--yes --reason") ||
		!strings.Contains(got.err, "Stripe keeps events for 30 days") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := s.pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes"); got.code != 2 || !strings.Contains(got.err, "--reason") {
		t.Errorf("accepted without an actor: code %d\n%s%s", got.code, got.out, got.err)
	}
	report := decode[source.GapReport](t, s.pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes", "--reason", "lost", "--json"))
	if len(report.Missing) != 2 || len(report.Filed) != 2 || report.Filed[0].Status != "received" {
		t.Errorf("report %+v", report)
	}
	if got := s.pawl(t, "events", "backfill", "billing", "--from", "1h"); got.code != 0 || !strings.HasPrefix(got.out, "no gap between ") {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := s.pawl(t, "events", "show", "evt_lost_1"); !strings.Contains(got.out, "read from the provider's API and not signed") {
		t.Errorf("the evidence does not contain the way of arrival:\n%s%s", got.out, got.err)
	}
	var trail string
	if err := connect(t, dsn).QueryRow(t.Context(), `select action || ' ' || target || ' ' || reason from operator_actions`).Scan(&trail); err != nil || trail != "backfill billing lost" {
		t.Errorf("audit trail %q, %v", trail, err)
	}
}

// customerOf returns the customer that pawl send creates for an account.
func customerOf(t *testing.T, account string) string {
	t.Helper()
	e, err := forge.New(forge.Params{Provider: providers()["stripe"], Type: "customer.subscription.created", Account: account}, "")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Data struct{ Object struct{ Customer string } }
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Data.Object.Customer
}

// A long command prints its progress on standard error.
func TestProgress_LongCommands_Told(t *testing.T) {
	t.Parallel()
	s, _ := withSandbox(t, "billing")
	s.pawl(t, "send", "--source", "billing", "--type", "customer.subscription.created", "--account", "acme", "--undelivered")
	for want, args := range map[string][]string{"1 event listed": {"backfill", "--from", "1h", "billing"}, " to compare": {"reconcile", "--dry-run", customerOf(t, "acme")}} {
		var told strings.Builder
		a := newApp(stdio{out: io.Discard, err: &told}, s.variable)
		a.configFile, a.log, a.progressEvery = s.file, slog.New(slog.DiscardHandler), 0
		cmd := map[string]func(*app) *cobra.Command{"backfill": eventsBackfill, "reconcile": reconcile}[args[0]](a)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args[1:])
		if err := cmd.ExecuteContext(t.Context()); (err != nil && !errors.Is(err, output.ErrFailed)) || !strings.Contains(told.String(), want) {
			t.Errorf("pawl %v: %v, printed %q, want %q", args, err, told.String(), want)
		}
	}
}

// Stripe lists a connected account's events separately, without the account in each event. They are stored under the
// account, as if delivered. That applies to snapshot events, which API v1 lists for Stripe-Account, and thin events,
// which API v2 lists for Stripe-Context. An event of the key's own account is stored without an account.
func TestGaps_ConnectedAccount(t *testing.T) {
	t.Parallel()
	for payload, eventType := range map[string]string{"snapshot": "invoice.paid", "thin": "v1.invoice.paid"} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			s, dsn := withSandbox(t, "billing")
			write(t, s.file, strings.Replace(read(t, s.file), "mode: live,", "mode: live, accounts: {acct_9: acme}, options: {payload: "+payload+"},", 1))
			for id, flags := range map[string][]string{"evt_own": nil, "evt_theirs": {"--provider-account", "acct_9"}} {
				args := append([]string{"send", "--source", "billing", "--type", "invoice.paid", "--event-id", id, "--undelivered"}, flags...)
				if got := s.pawl(t, args...); got.code != 0 {
					t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
				}
			}
			report := decode[source.GapReport](t, s.pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes", "--reason", "lost", "--json"))
			if len(report.Filed) != 2 {
				t.Errorf("report %+v", report)
			}
			rows, err := connect(t, dsn).Query(t.Context(), `select concat_ws(' ', event_id, type, account) from receipts order by 1`)
			if err != nil {
				t.Fatal(err)
			}
			filed, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if want := []string{"evt_own " + eventType + " ", "evt_theirs " + eventType + " acct_9"}; err != nil || !slices.Equal(filed, want) {
				t.Errorf("filed %q, %v; want %q", filed, err, want)
			}
			if got := s.pawl(t, "events", "backfill", "billing", "--from", "1h"); got.code != 0 {
				t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
			}
		})
	}
}

// The command prints the differences and files them after a confirmation. If nothing was compared, it fails and prints
// the reason.
func TestReconcile_ShownThenFiled(t *testing.T) {
	t.Parallel()
	s, dsn := withSandbox(t, "billing")
	s.pawl(t, "send", "--source", "billing", "--type", "customer.subscription.created", "--account", "acme", "--undelivered")
	if got := s.pawl(t, "reconcile", "acme", "--dry-run"); got.code != 1 || !strings.Contains(got.err, `no account "acme"`) {
		t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
	}
	customer := customerOf(t, "acme")
	got := s.pawl(t, "reconcile", customer, "--dry-run")
	if got.code != 1 || !strings.Contains(got.out, "plan") || !strings.Contains(got.out, "pro") {
		t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
	}
	for _, flags := range [][]string{{"cus_nobody", "--dry-run"}, {"cus_nobody", "--reason", "lost", "--yes"}} {
		if got := s.pawl(t, append([]string{"reconcile"}, flags...)...); got.code != 1 || !strings.Contains(got.out, "nothing was compared: cus_nobody is left out: Stripe shows no such customer") {
			t.Errorf("%q: code %d\n%s%s", flags, got.code, got.out, got.err)
		}
	}
	for _, flags := range [][]string{{"--all", "--since", "1h", "--dry-run"}, {"--all", "--since", "1h", "--reason", "lost", "--yes"}} {
		if got := s.pawl(t, append([]string{"reconcile"}, flags...)...); got.code != 1 || !strings.Contains(got.err, "nothing was compared: no account that changed since ") {
			t.Errorf("%q: code %d\n%s%s", flags, got.code, got.out, got.err)
		}
	}
	if got := s.pawl(t, "reconcile", customer); got.code != 2 || !strings.Contains(got.err, "--reason") {
		t.Errorf("accepted without an actor: code %d\n%s%s", got.code, got.out, got.err)
	}
	if got := s.pawl(t, "reconcile", customer, "--reason", "lost"); got.code != 1 || !strings.Contains(got.err, "not confirmed") {
		t.Errorf("not confirmed: code %d\n%s%s", got.code, got.out, got.err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 2 { // no worker runs: the second time, the same difference is one decision, even in another second
		for second := time.Now().Unix(); time.Now().Unix() == second; {
			<-tick.C
		}
		if got := s.pawl(t, "reconcile", customer, "--reason", "lost", "--yes", "--request-id", "one"); got.code != 0 || !strings.Contains(got.out, "1 object filed") {
			t.Errorf("code %d\n%s%s", got.code, got.out, got.err)
		}
	}
	var filed string
	if err := connect(t, dsn).QueryRow(t.Context(), `select string_agg(concat_ws(' ', type, status, secret_label, duplicates), ', ') from receipts`).Scan(&filed); err != nil || filed != "reconcile received (api) 1" {
		t.Errorf("filed %q, %v", filed, err)
	}
}

// The output of a comparison has one verdict, in its last line.
func TestWriteDifferences_OneVerdict(t *testing.T) {
	t.Parallel()
	sums := []cash.Difference{{Account: "acme", Currency: "usd", Booked: 100, Moved: 200, Objects: []cash.Object{{Object: "in_1"}}}}
	fields := []account.Difference{{Object: "in_1", Field: "status"}, {Object: "in_1", Field: "paid"}}
	for _, c := range []struct {
		found account.Reconciliation
		want  string
	}{
		{account.Reconciliation{Compared: 3}, "no difference: 3 objects of cus_1 compared"},
		{account.Reconciliation{LeftOut: map[string]string{"in_1": "it is of mode test"}}, "nothing was compared: in_1 is left out: it is of mode test"},
		{account.Reconciliation{Compared: 3, Cash: sums}, "the sums of 1 currency differ: 3 objects of cus_1 compared"},
		{account.Reconciliation{Compared: 3, Differences: fields}, "1 object differs: 3 objects of cus_1 compared"},
		{account.Reconciliation{Compared: 3, Differences: fields, Cash: sums}, "1 object and the sums of 1 currency differ: 3 objects of cus_1 compared"},
	} {
		c.found.Customers = []string{"cus_1"}
		var out bytes.Buffer
		writeDifferences(newApp(stdio{out: &out}, nil), &c.found)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := lines[len(lines)-1]; got != c.want || strings.Count(out.String(), "compared") != 1 {
			t.Errorf("got\n%s\nwant the verdict %q", out.String(), c.want)
		}
	}
}

// The audit trail contains an import with its actor.
func TestImport_Audited(t *testing.T) {
	t.Parallel()
	s, dsn := withSandbox(t, "billing")
	s.pawl(t, "send", "--source", "billing", "--type", "customer.subscription.created", "--account", "acme", "--undelivered")
	for range 2 {
		if got := s.pawl(t, "import", "stripe", "--as", "ada", "--reason", "day one"); got.code != 0 {
			t.Fatalf("code %d\n%s%s", got.code, got.out, got.err)
		}
	}
	var trail string
	if err := connect(t, dsn).QueryRow(t.Context(), `select string_agg(concat_ws(' ', action, target, actor, reason), ', ') from operator_actions`).Scan(&trail); err != nil ||
		systemUser.ReplaceAllString(trail, "") != "import source billing ada day one, import source billing ada day one" {
		t.Errorf("audit trail %q, %v", trail, err)
	}
}

// doctor reports the endpoint at Stripe: the fault, the action to take, and the period in which it was disabled.
func TestDoctor_Endpoint_Said(t *testing.T) {
	t.Parallel()
	s, dsn := withSandbox(t, "billing")
	f := finding(t, first(s.at(t, away).examined(t)), "endpoint", "billing")
	if f.Level != doctor.Warn || f.Found != "no endpoint of this account has a URL that ends in /hooks/billing" {
		t.Errorf("%+v", f)
	}
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into endpoints (source, looked_at, off_since, off_until, findings) values ('billing', now(), now() - interval '1 day', now(), '[]')`); err != nil {
		t.Fatal(err)
	}
	if r := s.pawl(t, "doctor"); !strings.Contains(r.out, "it was off until ") || !strings.Contains(r.out, "`pawl events backfill billing --from ") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if _, err := conn.Exec(t.Context(), `update endpoints set findings = '[{"kind":"unsent","message":"it sends nothing","found_at":"2026-11-20T08:00:00Z"}]'`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `insert into source_failures values ('billing', 3, now() - interval '7 days', now())`); err != nil {
		t.Fatal(err)
	}
	if f := finding(t, first(s.examined(t)), "answers", "billing"); f.Level != doctor.Fail || !strings.Contains(f.Found, "at least 3 deliveries in a row") {
		t.Errorf("%+v", f)
	}
	if r := s.pawl(t, "status"); !strings.Contains(r.out, "it sends nothing") || !strings.Contains(r.out, "at least 3 deliveries in a row") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

func first[A, B any](a A, _ B) A { return a }
