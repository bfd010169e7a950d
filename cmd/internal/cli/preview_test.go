package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// ledgerOf creates paid invoices in a given state for dry runs. It writes the rows that runs would have written,
// without starting any run.
type ledgerOf struct {
	*testing.T
	pool *pgxpool.Pool
	cfg  *config.Config
}

// kept stores an event as an ingress does, and sets the status and the reason of its receipt.
func (l ledgerOf) kept(name, status, reason string) forge.Event {
	l.Helper()
	e, err := forge.New(forge.Params{Provider: program().Providers["stripe"], EventID: "evt_" + name, Type: "invoice.paid", Seed: name, Account: "acct-" + name, Plan: "pro", Live: true, Email: "ada@example.com", At: time.Now().Add(-time.Hour)}, "")
	if err != nil {
		l.Fatal(err)
	}
	receipts := receipt.NewStore(l.pool, receipt.Options{})
	defer receipts.Close()
	if _, err := receipts.Insert(l.Context(), receipt.Delivery{Source: "billing", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Status: receipt.Received, Body: e.Body}}}); err != nil {
		l.Fatal(err)
	}
	l.exec(`update receipts set status = $2, reason = $3, dispatch_at = now() + interval '1 hour' where event_id = $1`, e.ID, status, reason)
	return e
}

// ran also writes the run and its effects: kinds and states. The run is parked or has ended.
func (l ledgerOf) ran(name, status, reason string, states map[string]string) {
	l.Helper()
	e := l.kept(name, status, reason)
	var id, invoice string
	if err := l.pool.QueryRow(l.Context(), `select id::text from receipts where event_id = $1`, e.ID).Scan(&id); err != nil {
		l.Fatal(err)
	}
	subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: e.ID, EventType: e.Type, ReceiptID: id}
	facts, err := stripe.Read(e.Body, subject)
	if err != nil {
		l.Fatal(err)
	}
	var change fold.Change
	if err := pgx.BeginFunc(l.Context(), l.pool, func(tx pgx.Tx) (err error) {
		change, err = billing.Apply(l.Context(), tx, facts, process.BillingPolicy(l.cfg), "apply-facts:stripe:live:"+e.ID, time.Time{})
		if err != nil {
			return err
		}
		return billing.KeepAddress(l.Context(), tx, stripe.ReadAddress(e.Body, subject))
	}); err != nil {
		l.Fatal(err)
	}
	invoice = change.After.Invoice.ID
	applied, err := json.Marshal(change)
	if err != nil {
		l.Fatal(err)
	}
	var waits receipt.Waits
	for kind, key := range map[string]string{
		"apply-facts": e.ID, "provision-workspace": change.After.Access.Account + ":v1", "finance-export": invoice, "receipt-email": invoice,
	} {
		state, result := states[kind], "{}"
		if state == "" {
			state = "done"
		}
		if kind == "apply-facts" {
			result = string(applied)
		}
		class := map[string]string{"failed": "fault", "refused": "permanent", "uncertain": "uncertain"}[state]
		if state == "refused" {
			state = "failed"
		}
		key = kind + ":stripe:live:" + key
		l.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, result, error, error_class, done_at)
			values ($1, $2, $3, $4, $5, 'run', now(), $6, $7, $8, now())`, key, kind, state, id, e.ID, result, map[bool]string{true: "answered 404"}[class != ""], class)
		waits.Steps = append(waits.Steps, receipt.Step{Key: key, Kind: kind})
		if class != "" {
			waits.Effects = append(waits.Effects, receipt.OpenEffect{Key: key, Kind: kind, State: state, Uncertain: state == "uncertain", ByHand: true})
		}
	}
	l.exec(`update receipts set workflow_id = 'stripe:' || $1 where event_id = $1`, e.ID)
	if len(waits.Effects) > 0 {
		waits.Decisions = []string{"skip", "retry", "done", "resend", "compensate"}
		l.exec(`update receipts set waits = $2 where event_id = $1`, e.ID, waits)
	}
}

func (l ledgerOf) exec(sql string, args ...any) {
	l.Helper()
	if _, err := l.pool.Exec(l.Context(), sql, args...); err != nil {
		l.Fatal(err)
	}
}

// everyRow returns the rows of every table, each with the transaction that wrote it.
func (l ledgerOf) everyRow() map[string]string {
	l.Helper()
	rows := map[string]string{}
	tables, _ := l.pool.Query(l.Context(), `select tablename::text from pg_tables where schemaname = current_schema()`)
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	for _, name := range names {
		if err == nil {
			var text *string
			err = l.pool.QueryRow(l.Context(), `select string_agg(xmin || ' ' || t::text, e'\n' order by t::text) from `+name+` t`).Scan(&text)
			if text != nil {
				rows[name] = *text
			}
		}
	}
	if err != nil {
		l.Fatal(err)
	}
	return rows
}

// kindOfKey matches the kind of an effect at the start of its key.
var kindOfKey = regexp.MustCompile(`\b([a-z]+(?:-[a-z]+)+):`)

// A dry run of each verb lists each effect with its result, and the result of the event. It changes no row, and
// requires neither a reason nor Temporal, which is not available here.
func TestEvents_DryRun_NamesEachEffect_ChangesNothing(t *testing.T) {
	t.Parallel()
	s, dsn := parkedStack(t, 0)
	cfg, pool := s.Open(t, dsn)
	l := ledgerOf{t, pool, cfg}
	open := map[string]string{"finance-export": "failed", "receipt-email": "uncertain"}
	l.ran("parked", "dead", "effect_failed: x", open)
	l.ran("done", "processed", "", nil)
	l.ran("refused", "needs_review", "effect_refused: x", map[string]string{"finance-export": "refused"})
	l.kept("ignored", "ignored", "type_ignored: x")
	l.kept("asked", "needs_review", "suspected_replay: x")
	if _, err := pause.New(pool).Begin(t.Context(), pause.Pause{Kind: pause.Sink, Name: "email", Actor: "ada", Reason: "they migrate"}); err != nil {
		t.Fatal(err)
	}

	const stays, runs, asks, refused, fails, waits = "done, stays", "will run", "may have happened: needs a decision", "refused", "not done", "will wait, then run"
	of := func(facts, workspace, finance, mail string) map[string]string {
		return map[string]string{"apply-facts": facts, "provision-workspace": workspace, "finance-export": finance, "receipt-email": mail}
	}
	withUndos := func(m map[string]string) map[string]string {
		maps.Copy(m, map[string]string{"withhold-grant": runs, "correction-notice": waits})
		return m
	}
	for name, tt := range map[string]struct {
		args []string
		says map[string]string
		then string
	}{
		"retry":      {[]string{"retry", "evt_parked"}, of(stays, stays, runs, asks), "the event ends as Needs a decision: it is unclear whether a step happened"},
		"retry one":  {[]string{"retry", "evt_parked", "--effect", "finance-export"}, of(stays, stays, runs, asks), "the event ends as Needs a decision: it is unclear whether a step happened"},
		"skip":       {[]string{"skip", "evt_parked", "--effect", "finance-export"}, of(stays, stays, "will be skipped", asks), "the event ends as Needs a decision: it is unclear whether a step happened"},
		"done":       {[]string{"mark-done", "evt_parked", "--effect", "finance-export"}, of(stays, stays, "will be marked done", asks), "the event ends as Needs a decision: it is unclear whether a step happened"},
		"resend":     {[]string{"resend", "evt_parked"}, of(stays, stays, fails, waits), "after the waiting effects have run, the event ends as Failed: a step failed"},
		"compensate": {[]string{"compensate", "evt_parked"}, withUndos(of("will be compensated", stays, fails, "will be compensated")), "the event ends as Taken back: uid:"},
		"refused":    {[]string{"compensate", "evt_refused"}, withUndos(of("will be compensated", stays, refused, "will be compensated")), "the event ends as Taken back: uid:"},
		"replay":     {[]string{"replay", "evt_done"}, of(stays, stays, stays, stays), "then the event ends as Done"},
		"run":        {[]string{"start", "evt_ignored"}, of(runs, runs, runs, waits), "after the waiting effects have run, the event ends as Done"},
		"approve":    {[]string{"approve", "evt_asked"}, of(runs, runs, runs, waits), "after the waiting effects have run, the event ends as Done"},
		"reject":     {[]string{"reject", "evt_asked"}, map[string]string{}, "then the event ends as Ignored: a person decided to do nothing"},
	} {
		before := l.everyRow()
		r := s.Pawl(t, append(append([]string{"events"}, tt.args...), "--dry-run")...)
		if r.Code != 0 || !strings.Contains(r.Out, "Nothing was changed") || !strings.Contains(r.Out, tt.then) {
			t.Errorf("%s: exit %d, want %q:\n%s%s", name, r.Code, tt.then, r.Out, r.Err)
		}
		got := map[string]string{}
		for line := range strings.Lines(r.Out) {
			for _, said := range []string{stays, runs, waits, asks, refused, fails, "will be skipped", "will be marked done", "will be compensated"} {
				if after, ok := strings.CutPrefix(line, said+"  "); ok {
					kind := kindOfKey.FindStringSubmatch(after)[1]
					if kind == "provision-workspace" && strings.Contains(line, ":v2") {
						continue // the target of the workspace after the compensation
					}
					got[kind] = said
				}
			}
		}
		if !maps.Equal(got, tt.says) {
			t.Errorf("%s prints\n%v, want\n%v:\n%s", name, got, tt.says, r.Out)
		}
		if slices.Contains(slices.Collect(maps.Values(tt.says)), waits) && !strings.Contains(r.Out, "waits first: email is paused since") {
			t.Errorf("%s does not print the reason of the wait:\n%s", name, r.Out)
		}
		after := l.everyRow()
		for table := range after {
			if before[table] != after[table] {
				t.Errorf("%s has written to %s", name, table)
			}
		}
	}
	// The dispatcher does not start runs of a paused source.
	if _, err := pause.New(pool).Begin(t.Context(), pause.Pause{Kind: pause.Source, Name: "billing", Actor: "ada", Reason: "a wrong price"}); err != nil {
		t.Fatal(err)
	}
	for verb, waits := range map[string]bool{"start evt_ignored": true, "replay evt_done": true, "approve evt_asked": true, "retry evt_parked": false} {
		r := s.Pawl(t, append(append([]string{"events"}, strings.Fields(verb)...), "--dry-run")...)
		if strings.Contains(r.Out, "its run waits first: source billing is paused since ") != waits {
			t.Errorf("%s, of a paused source:\n%s%s", verb, r.Out, r.Err)
		}
	}
	// The output contains how long the sink may be down at most.
	if err := breaker.New(pool).Open(t.Context(), "finance", breaker.Failures{Reason: "answered 503"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if r := s.Pawl(t, "events", "retry", "evt_parked", "--dry-run"); !regexp.MustCompile(`waits first: finance has been down since \S+: answered 503; if the sink stays down until the last attempt at \S+, the run parks with the status dead`).MatchString(r.Out) {
		t.Errorf("retry, with a sink that is down:\n%s%s", r.Out, r.Err)
	}
	// The dry run of a refused verb prints the refusal and the verbs that work.
	if r := s.Pawl(t, "events", "approve", "evt_parked", "--dry-run"); r.Code != command.ExitFailed || !strings.Contains(r.Out, "approve would be refused") || !strings.Contains(r.Out, "events retry evt_parked") {
		t.Errorf("refused: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	type preview struct {
		Effects []struct{ Kind, Forecast, Waits_for string }
		Outcome string
	}
	if got := commandtest.Decode[preview](t, s.Pawl(t, "events", "start", "evt_ignored", "--dry-run", "--json")); len(got.Effects) != 4 || got.Outcome != "processed" ||
		!slices.ContainsFunc(got.Effects, func(e struct{ Kind, Forecast, Waits_for string }) bool {
			return e.Kind == "receipt-email" && e.Forecast == "runs_later" && strings.HasPrefix(e.Waits_for, "email is paused")
		}) {
		t.Errorf("as JSON: %s", fmt.Sprint(got))
	}
}

// A dry run of a hold lists the effects of its scheduled action and the access afterwards. The dry run changes no
// row.
func TestAccounts_HoldDryRun_NamesEachEffect_ChangesNothing(t *testing.T) {
	t.Parallel()
	s, dsn := parkedStack(t, 0)
	cfg, pool := s.Open(t, dsn)
	l := ledgerOf{t, pool, cfg}
	l.ran("held", "processed", "", nil)
	for _, tt := range []struct{ verb, letter, when, then string }{
		{"hold", "will wait, then run Access ended e-mail", "after the waiting effects have run, ", "acct-held may use nothing"},
		{"release", "", "then ", "acct-held may use pro"},
	} {
		before := l.everyRow()
		r := s.Pawl(t, "accounts", tt.verb, "acct-held", "--dry-run")
		for _, want := range []string{"Preview: " + tt.verb + "-account of acct-held. Nothing was changed.", "will run Workspace", tt.letter, tt.when + tt.then} {
			// compare words, because the width of a column depends on its longest cell
			if r.Code != 0 || !strings.Contains(strings.Join(strings.Fields(r.Out), " "), want) {
				t.Errorf("%s: exit %d, want %q:\n%s%s", tt.verb, r.Code, want, r.Out, r.Err)
			}
		}
		if after := l.everyRow(); !maps.Equal(before, after) {
			t.Errorf("a dry run of %s has written", tt.verb)
		}
		if r := s.Pawl(t, "accounts", tt.verb, "acct-held", "--reason", "stolen cards"); r.Code != 0 || !strings.Contains(r.Out, tt.then) {
			t.Errorf("%s: exit %d: %s%s", tt.verb, r.Code, r.Out, r.Err)
		}
	}
	if r := s.Pawl(t, "accounts", "hold", "nobody", "--dry-run"); r.Code != command.ExitFailed || !strings.Contains(r.Err, `no account "nobody"`) {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
}

// A person can paste the alternatives: each is one line with one command, with the configuration of this call.
func TestWritePreview_Refused_CommandsToPaste(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := command.NewApp(command.Stdio{Out: &out}, nil)
	a.ConfigFile = "own.yaml"
	err := command.Emit(a, &decide.Preview{
		Verb: "replay", Refused: "evt_1 is dead",
		Choices: []decide.Choice{
			{Command: []string{"pawl", "events", "retry", "evt_1", "--reason", "REASON"}, Effect: "tries again"},
			{Command: []string{"temporal", "workflow", "cancel"}, Effect: "stops it"},
		},
	}, writePreview)
	if !errors.Is(err, output.ErrFailed) {
		t.Errorf("error %v", err)
	}
	want := "replay would be refused: evt_1 is dead\n" +
		"You can run:\n" +
		"  pawl --config own.yaml events retry evt_1 --reason REASON  # tries again\n" +
		"  temporal workflow cancel                                   # stops it\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A decision prints the same warning as its preview.
func TestWriteAnswer_WarnsLikeThePreview(t *testing.T) {
	t.Parallel()
	const text = "No event of account acme has arrived."
	for name, write := range map[string]func(*command.App){
		"preview": func(a *command.App) { writePreview(a, &decide.Preview{Verb: "assign", Warning: text}) },
		"answer":  func(a *command.App) { writeAnswer(a, &decide.Answer{Verb: "assign", Warning: text}) },
	} {
		var out bytes.Buffer
		write(command.NewApp(command.Stdio{Out: &out}, nil))
		if !strings.HasPrefix(out.String(), "warning: "+text+"\n") {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// Only events that will run cause entries.
func TestTotals_Money_OnlyWhatRunsBooks(t *testing.T) {
	t.Parallel()
	counts := map[workflows.Will]int{workflows.WillStay: 2, workflows.WillRun: 1, workflows.WillSkip: 1}
	var money []decide.Sum
	for _, will := range []workflows.Will{workflows.WillStay, workflows.WillRun, workflows.WillSkip} {
		money = append(money, decide.Sum{Will: will, Currency: "usd", Amount: 4900})
	}
	want := "done, stays: 2 (booked 49.00 USD); will run: 1 (books 49.00 USD); will be skipped: 1 (49.00 USD)"
	if got := tables.Totals(counts, money); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
