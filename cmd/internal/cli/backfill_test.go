package cli

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

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/send"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/cash"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// lose records an event at the sandbox's Stripe API without a delivery, as `pawl send --undelivered` does.
func lose(t *testing.T, s commandtest.Stack, p forge.Params) {
	t.Helper()
	cfg, err := config.Load(s.File, s.Variable, program().Providers)
	if err != nil {
		t.Fatal(err)
	}
	p.APIVersion, p.Plan, p.Amount, p.Currency, p.Lines = forge.Basil, "pro", 4900, "usd", 1
	order := send.Order{Params: p, Count: 1}
	events, err := order.Events(program().Providers, cfg.Sources["billing"])
	if err == nil {
		err = send.Tell(t.Context(), cfg.Sources["billing"], events)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// `pawl events backfill` lists events that were never delivered, and stores them once. Afterwards it does not list
// them.
func TestBackfill_Undelivered_ListedThenStored(t *testing.T) {
	t.Parallel()
	s, dsn := commandtest.Sandbox(t, program(), "billing")
	if got := s.Pawl(t, "events", "backfill", "billing", "--from", "1h"); got.Code != 0 || !strings.HasPrefix(got.Out, "no gap between ") {
		t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	for _, id := range []string{"evt_lost_1", "evt_lost_2"} {
		lose(t, s, forge.Params{Type: "invoice.paid", EventID: id})
	}
	got := s.Pawl(t, "events", "backfill", "billing", "--from", "60d")
	if got.Code != 1 || !strings.Contains(got.Out, "evt_lost_1") || !strings.Contains(got.Out, "2 events missing between ") || !strings.Contains(got.Out, "--yes --reason") ||
		!strings.Contains(got.Err, "Stripe keeps events for 30 days") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := s.Pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes"); got.Code != 2 || !strings.Contains(got.Err, "--reason") {
		t.Errorf("accepted without an actor: code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	report := commandtest.Decode[source.GapReport](t, s.Pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes", "--reason", "lost", "--json"))
	if len(report.Missing) != 2 || len(report.Filed) != 2 || report.Filed[0].Status != "received" {
		t.Errorf("report %+v", report)
	}
	if got := s.Pawl(t, "events", "backfill", "billing", "--from", "1h"); got.Code != 0 || !strings.HasPrefix(got.Out, "no gap between ") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := s.Pawl(t, "events", "show", "evt_lost_1"); !strings.Contains(got.Out, "read from the provider's API and not signed") {
		t.Errorf("the evidence does not contain the way of arrival:\n%s%s", got.Out, got.Err)
	}
	var trail string
	if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select action || ' ' || target || ' ' || reason from operator_actions`).Scan(&trail); err != nil || trail != "backfill billing lost" {
		t.Errorf("audit trail %q, %v", trail, err)
	}
}

// customerOf returns the customer that pawl send creates for an account.
func customerOf(t *testing.T, account string) string {
	t.Helper()
	e, err := forge.New(forge.Params{Provider: program().Providers["stripe"], Type: "customer.subscription.created", Account: account}, "")
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
	s, _ := commandtest.Sandbox(t, program(), "billing")
	lose(t, s, forge.Params{Type: "customer.subscription.created", Account: "acme"})
	for want, args := range map[string][]string{"1 event listed": {"backfill", "--from", "1h", "billing"}, " to compare": {"reconcile", "--dry-run", customerOf(t, "acme")}} {
		var told strings.Builder
		a := command.NewApp(command.Stdio{Out: io.Discard, Err: &told}, s.Variable)
		a.Providers, a.ConfigFile, a.Log, a.ProgressEvery = s.Program.Providers, s.File, slog.New(slog.DiscardHandler), 0
		cmd := map[string]func(*command.App) *cobra.Command{"backfill": eventsBackfill, "reconcile": reconcile}[args[0]](a)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args[1:])
		if err := cmd.ExecuteContext(t.Context()); (err != nil && !errors.Is(err, output.ErrFailed)) || !strings.Contains(told.String(), want) {
			t.Errorf("pawl %v: %v, printed %q, want %q", args, err, told.String(), want)
		}
	}
}

// Stripe lists a connected account's events separately, without the account in each event. pawl stores them with the
// account, as a delivery would. This applies to snapshot events, which API v1 lists for the header Stripe-Account,
// and to thin events, which API v2 lists for the header Stripe-Context. An event of the key's own account is stored
// without an account.
func TestGaps_ConnectedAccount(t *testing.T) {
	t.Parallel()
	for payload, eventType := range map[string]string{"snapshot": "invoice.paid", "thin": "v1.invoice.paid"} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			s, dsn := commandtest.Sandbox(t, program(), "billing")
			commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "mode: live,", "mode: live, accounts: {acct_9: acme}, options: {payload: "+payload+"},", 1))
			for id, account := range map[string]string{"evt_own": "", "evt_theirs": "acct_9"} {
				lose(t, s, forge.Params{Type: "invoice.paid", EventID: id, ConnectedAccount: account})
			}
			report := commandtest.Decode[source.GapReport](t, s.Pawl(t, "events", "backfill", "billing", "--from", "1h", "--yes", "--reason", "lost", "--json"))
			if len(report.Filed) != 2 {
				t.Errorf("report %+v", report)
			}
			rows, err := commandtest.Connect(t, dsn).Query(t.Context(), `select concat_ws(' ', event_id, type, account) from receipts order by 1`)
			if err != nil {
				t.Fatal(err)
			}
			filed, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if want := []string{"evt_own " + eventType + " ", "evt_theirs " + eventType + " acct_9"}; err != nil || !slices.Equal(filed, want) {
				t.Errorf("filed %q, %v; want %q", filed, err, want)
			}
			if got := s.Pawl(t, "events", "backfill", "billing", "--from", "1h"); got.Code != 0 {
				t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
			}
		})
	}
}

// The command prints the differences and applies them after a confirmation. If no object was compared, it fails and
// prints the reason.
func TestReconcile_ShownThenFiled(t *testing.T) {
	t.Parallel()
	s, dsn := commandtest.Sandbox(t, program(), "billing")
	lose(t, s, forge.Params{Type: "customer.subscription.created", Account: "acme"})
	if got := s.Pawl(t, "reconcile", "acme", "--dry-run"); got.Code != 1 || !strings.Contains(got.Err, `no account "acme"`) {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	customer := customerOf(t, "acme")
	got := s.Pawl(t, "reconcile", customer, "--dry-run")
	if got.Code != 1 || !strings.Contains(got.Out, "plan") || !strings.Contains(got.Out, "pro") {
		t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	for _, flags := range [][]string{{"cus_nobody", "--dry-run"}, {"cus_nobody", "--reason", "lost", "--yes"}} {
		if got := s.Pawl(t, append([]string{"reconcile"}, flags...)...); got.Code != 1 || !strings.Contains(got.Out, "nothing was compared: cus_nobody is left out: Stripe returns no such customer") {
			t.Errorf("%q: code %d\n%s%s", flags, got.Code, got.Out, got.Err)
		}
	}
	for _, flags := range [][]string{{"--all", "--since", "1h", "--dry-run"}, {"--all", "--since", "1h", "--reason", "lost", "--yes"}} {
		if got := s.Pawl(t, append([]string{"reconcile"}, flags...)...); got.Code != 1 || !strings.Contains(got.Err, "nothing was compared: no account that changed since ") {
			t.Errorf("%q: code %d\n%s%s", flags, got.Code, got.Out, got.Err)
		}
	}
	if got := s.Pawl(t, "reconcile", customer); got.Code != 2 || !strings.Contains(got.Err, "--reason") {
		t.Errorf("accepted without an actor: code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := s.Pawl(t, "reconcile", customer, "--reason", "lost"); got.Code != 1 || !strings.Contains(got.Err, "not confirmed") {
		t.Errorf("not confirmed: code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// no worker runs, so the same difference makes the same decision when the command is repeated, even in another
	// second
	for range 2 {
		for second := time.Now().Unix(); time.Now().Unix() == second; {
			<-tick.C
		}
		if got := s.Pawl(t, "reconcile", customer, "--reason", "lost", "--yes", "--request-id", "one"); got.Code != 0 || !strings.Contains(got.Out, "1 object filed") {
			t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
		}
	}
	var filed string
	if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select string_agg(concat_ws(' ', type, status, secret_label, duplicates), ', ') from receipts`).Scan(&filed); err != nil || filed != "reconcile received (api) 1" {
		t.Errorf("filed %q, %v", filed, err)
	}
}

// A comparison prints one verdict, in the last line.
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
		writeDifferences(command.NewApp(command.Stdio{Out: &out}, nil), &c.found)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := lines[len(lines)-1]; got != c.want || strings.Count(out.String(), "compared") != 1 {
			t.Errorf("got\n%s\nwant the verdict %q", out.String(), c.want)
		}
	}
}

// The audit trail records an import with its actor.
func TestImport_Audited(t *testing.T) {
	t.Parallel()
	s, dsn := commandtest.Sandbox(t, program(), "billing")
	lose(t, s, forge.Params{Type: "customer.subscription.created", Account: "acme"})
	for range 2 {
		if got := s.Pawl(t, "import", "stripe", "--as", "ada", "--reason", "day one"); got.Code != 0 {
			t.Fatalf("code %d\n%s%s", got.Code, got.Out, got.Err)
		}
	}
	var trail string
	if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select string_agg(concat_ws(' ', action, target, actor, reason), ', ') from operator_actions`).Scan(&trail); err != nil ||
		systemUser.ReplaceAllString(trail, "") != "import source billing ada day one, import source billing ada day one" {
		t.Errorf("audit trail %q, %v", trail, err)
	}
}
