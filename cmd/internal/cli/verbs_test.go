package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/token"
)

// answerOf is an answer with a typed result.
type answerOf[T any] struct {
	decide.Answer
	Result T `json:"result"`
}

func TestEvents_RunApproveReject(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', case when id = 'evt_price' then 'price.created' else 'invoice.paid' end, now(), '\x01', status, reason, workflow
		  from (values ('evt_mode~s', 'ignored', 'mode_ignored: a live event on a test source', ''), ('evt_account~s', 'ignored', 'account_ignored: "acct_2"', ''),
		               ('evt_ignored', 'ignored', 'type_ignored: "x"', ''), ('evt_price', 'ignored', 'type_ignored: "price.created"', ''), ('evt_collides', 'needs_review', 'id_collision: x', ''), ('evt_replay', 'needs_review', 'suspected_replay: same bytes as d-1', ''),
		               ('evt_restored', 'needs_review', 'foreign_run: of a receipt that is gone', 'stripe:evt_restored'),
		               ('evt_ended', 'needs_review', 'run_terminated: the run was ended from outside (Terminated)', 'stripe:evt_ended'),
		               ('evt_parked', 'needs_review', 'unreadable_payload', 'stripe:evt_parked'), ('evt_done', 'processed', '', '')) as v(id, status, reason, workflow)`); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt_ignored", "evt_replay"} {
		if r := s.Pawl(t, "events", "start", id); r.Code != 2 || !strings.Contains(r.Err, "--reason") {
			t.Errorf("%s without a reason: exit %d, %s", id, r.Code, r.Err)
		}
		got := commandtest.Decode[answerOf[event.Result]](t, s.Pawl(t, "events", "start", id, "--reason", "wanted after all", "--as", "ada", "--json"))
		if got.Result.EventID != id || got.Repeated || !strings.Contains(got.Message, "will be run") {
			t.Errorf("%s: %+v", id, got)
		}
		var due bool
		var status string
		if err := conn.QueryRow(t.Context(), `select status, dispatch_at <= now() from receipts where event_id = $1`, id).Scan(&status, &due); err != nil || status != "received" || !due {
			t.Errorf("%s is %s, due %t, %v; want received and due at once", id, status, due, err)
		}
		// The response was lost, so the command is repeated.
		again := commandtest.Decode[answerOf[event.Result]](t, s.Pawl(t, "events", "start", id, "--reason", "wanted after all", "--request-id", got.Request, "--json"))
		if !again.Repeated || again.Result.Receipt != got.Result.Receipt || !strings.Contains(again.Message, "is received now") {
			t.Errorf("%s once more: %+v", id, again)
		}
	}
	restored := commandtest.Decode[answerOf[event.Result]](t, s.Pawl(t, "events", "approve", "evt_restored", "--reason", "the mail was not sent", "--as", "ada", "--json"))
	var anew string
	if err := conn.QueryRow(t.Context(), `select workflow_id from receipts where event_id = 'evt_restored' and status = 'received'`).Scan(&anew); err != nil || anew != "stripe:evt_restored:"+restored.Result.Receipt {
		t.Errorf("evt_restored is to run as %q (%v), want an ID of its own", anew, err)
	}
	r := s.Pawl(t, "events", "reject", "evt_collides", "--reason", "a test of theirs", "--as", "ada")
	var reason string
	if err := conn.QueryRow(t.Context(), `select reason from receipts where event_id = 'evt_collides' and status = 'ignored'`).Scan(&reason); err != nil || !strings.HasPrefix(reason, "dismissed: rejected by uid:") ||
		!strings.Contains(r.Err, "another event with the same ID has another type, object or time") || !strings.Contains(r.Err, "reject: it ignores the event") {
		t.Errorf("rejected as %q (%v), and printed %q first", reason, err, r.Err)
	}
	for id, says := range map[string]string{
		"evt_mode~s": "which does not accept it", "evt_account": "which does not accept it", "evt_parked": "events retry evt_parked", "evt_done": "events replay evt_done",
		"evt_ended": "events replay evt_ended", "evt_ignored": " doctor  # a running ingress starts the run", "evt_none": "no event", "evt_price": "plans.prices maps prices to plans), and no destination of source s receives it",
	} {
		if r := s.Pawl(t, "events", "start", id, "--reason", "x"); r.Code != 1 || !strings.Contains(r.Err, says) {
			t.Errorf("%s: exit %d, %s; want %q in the output", id, r.Code, r.Err, says)
		}
	}
	var actions int
	if err := conn.QueryRow(t.Context(), `select count(*) from operator_actions where action in ('run', 'approve', 'reject') and actor like 'uid:% ada'
		and before->>'status' in ('ignored', 'needs_review')`).Scan(&actions); err != nil || actions != 4 {
		t.Errorf("%d audited actions, %v; want 4", actions, err)
	}
	if got := commandtest.Decode[[]timeline.Receipt](t, s.Pawl(t, "events", "list", "--status", "ignored", "--json")); len(got) != 4 {
		t.Errorf("still ignored: %+v, want the event that may not run and the rejected one", got)
	}
}

// To confirm a resend, a person types the key of the effect.
func TestEventsResend_Asks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'needs_review', 'effect_uncertain: x', 'stripe:evt_1',
		'{"decisions":["resend"],"effects":[{"key":"receipt-email:x","kind":"receipt-email","state":"uncertain","uncertain":true}]}')`); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]struct {
		code int
		says string
	}{
		"":    {2, "add --confirm receipt-email:x"},
		"yes": {1, `"yes" is not the key of the effect: nothing was done`},
	} {
		r := commandtest.Run(t, program(), in+"\n", s.Env, "--config", s.File, "events", "resend", "evt_1", "--reason", "the customer has none")
		if r.Code != want.code || !strings.Contains(r.Err, want.says) || !strings.Contains(r.Err, "receipt-email:x may have happened") {
			t.Errorf("typed %q: exit %d, %s; want %d and %q", in, r.Code, r.Err, want.code, want.says)
		}
	}
}

// parkedStack is a stack with the given number of dead events.
func parkedStack(t *testing.T, parked int) (commandtest.Stack, string) {
	t.Helper()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	// No server listens at this address, whatever else runs on this machine.
	commandtest.Write(t, filepath.Join(filepath.Dir(s.File), "temporal.toml"), "[profile.default]\naddress = \"127.0.0.1:1\"\nnamespace = \"default\"\n")
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"temporal: {config_file: temporal.toml}\n")
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'billing', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid',
			       now(), '\x01', 'dead', 'effect_failed: x', 'stripe:evt_' || n from generate_series(1, $1) as n`,
		`insert into event_subjects (receipt_id, object, main, amount, currency)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'in_' || n, true, 1000, 'usd' from generate_series(1, $1) as n`,
	} {
		if _, err := conn.Exec(t.Context(), sql, parked); err != nil {
			t.Fatal(err)
		}
	}
	return s, dsn
}

func TestBulk_DryRun_ShowsAndChangesNothing(t *testing.T) {
	t.Parallel()
	s, dsn := parkedStack(t, 1203) // more events than one page
	for _, dry := range [][]string{{"--request-id", "x"}, nil} {
		r := s.Pawl(t, append([]string{"events", "retry", "--status", "dead", "--reason-code", "effect_failed", "--reason", "x", "--dry-run"}, dry...)...)
		for _, want := range []string{"and 1183 more", "1203 events (12030.00 USD)", "nothing was done"} {
			if r.Code != 0 || !strings.Contains(r.Out, want) {
				t.Errorf("exit %d, screen does not have %q:\n%s%s", r.Code, want, r.Out, r.Err)
			}
		}
	}
	all := commandtest.Decode[struct {
		Count  int
		Events []struct{ Event_ID string }
		Money  map[string]int64
	}](t, s.Pawl(t, "events", "retry", "--status", "dead", "--reason", "x", "--dry-run", "--json"))
	seen := map[string]bool{}
	for _, e := range all.Events {
		seen[e.Event_ID] = true
	}
	if all.Count != 1203 || len(seen) != 1203 || all.Money["usd"] != 1203_000 {
		t.Errorf("%d events, %d different, %v", all.Count, len(seen), all.Money)
	}
	var jobs, actions int
	if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select (select count(*) from jobs), (select count(*) from operator_actions)`).Scan(&jobs, &actions); err != nil || jobs+actions != 0 {
		t.Errorf("%d jobs, %d actions, %v; want nothing changed", jobs, actions, err)
	}
}

// A decision about several events requires their number as confirmation.
func TestBulk_Confirmation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		events      int
		typed       string
		asks, makes bool
	}{
		{51, "", true, false}, {51, "yes\n", true, false}, {51, "50\n", true, false}, {51, " 51 \n", true, true}, {2, "", true, false}, {2, "2\n", true, true},
	} {
		t.Run(fmt.Sprintf("%d-%q", tt.events, tt.typed), func(t *testing.T) {
			t.Parallel()
			s, dsn := parkedStack(t, tt.events)
			r := commandtest.Run(t, program(), tt.typed, s.Env, "--config", s.File, "events", "retry", "--status", "dead", "--reason", "x", "--request-id", "x")
			if asks := strings.Contains(r.Err, "type their number"); asks != tt.asks {
				t.Errorf("asks: %t, want %t: %s", asks, tt.asks, r.Err)
			}
			// Temporal is not available, so the confirmed job is created and waits for its start.
			if made := strings.Contains(r.Err, "the job x is stored, but Temporal did not start its run"); made != tt.makes || r.Code != command.ExitFailed {
				t.Errorf("exit %d, makes %t, want %t: %s", r.Code, made, tt.makes, r.Err)
			}
			if refused := strings.Contains(r.Err, "not confirmed, nothing was done"); refused != (tt.asks && !tt.makes) {
				t.Errorf("not confirmed: %t: %s", refused, r.Err)
			}
			var jobs, items int
			if err := commandtest.Connect(t, dsn).QueryRow(t.Context(), `select (select count(*) from jobs), (select count(*) from job_items)`).Scan(&jobs, &items); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: tt.events}[tt.makes]; items != want || (jobs == 1) != tt.makes {
				t.Errorf("%d jobs with %d items, want %d", jobs, items, want)
			}
		})
	}
}

func TestBulk_UsageErrors(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	for want, args := range map[string][]string{
		"takes either one ID or a filter":                                     {"retry", "evt_1", "--status", "dead", "--reason", "x"},
		"events retry needs one ID, or --status for many":                     {"retry", "--reason", "x"},
		"--status: retry is possible for events":                              {"retry", "--reason-code", "effect_failed", "--reason", "x"},
		"--status: skip is possible for events that are dead or needs_review": {"skip", "--status", "processed", "--reason", "x"},
		"--status: run is possible for events that are ignored or":            {"start", "--status", "processed", "--reason", "x"},
		"--status: replay is possible for events that are processed or":       {"replay", "--status", "ignored", "--reason", "x"},
		"--rate: write a number of events per second":                         {"retry", "--status", "dead", "--rate", "1000", "--reason", "x"},
		"\"soon\" is not a time":                                              {"retry", "--status", "dead", "--since", "soon", "--reason", "x"},
		"--request-id: the request ID of a job has at most 60 characters":     {"retry", "--status", "dead", "--request-id", "a b", "--reason", "x"},
		"events retry needs --reason REASON":                                  {"retry", "--status", "dead"},
		"unknown flag: --status":                                              {"compensate", "--status", "dead", "--reason", "x"},
	} {
		if r := s.Pawl(t, append([]string{"events"}, args...)...); r.Code != command.ExitUsage || !strings.Contains(r.Err, want) {
			t.Errorf("events %v: exit %d, %q; want %q", args, r.Code, r.Err, want)
		}
	}
}

// Approve, reject and done also work for many events. The preview counts the refused events by reason.
func TestBulk_ApproveRejectDone(t *testing.T) {
	t.Parallel()
	s, dsn := parkedStack(t, 3)
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `update receipts set reason = case event_id when 'evt_3' then reason else 'suspected_replay: x' end,
		workflow_id = case event_id when 'evt_3' then workflow_id else '' end, waits = case event_id when 'evt_3' then '{"decisions":["retry"],"effects":[]}'::jsonb end`); err != nil {
		t.Fatal(err)
	}
	dry := s.Pawl(t, "events", "reject", "--status", "dead", "--dry-run")
	for _, want := range []string{"would reject 3 events", "2 would end as Ignored", "1 would be refused (is dead (effect_failed), and its run does not accept reject"} {
		if dry.Code != 0 || !strings.Contains(dry.Out, want) {
			t.Errorf("exit %d, the screen does not have %q:\n%s%s", dry.Code, want, dry.Out, dry.Err)
		}
	}
	for _, args := range [][]string{{"approve"}, {"reject"}, {"mark-done", "--effect", "finance-export", "--reference", "journal 7"}} {
		r := s.Pawl(t, append([]string{"events", args[0], "--status", "dead", "--reason", "x", "--yes", "--request-id", args[0]}, args[1:]...)...)
		if !strings.Contains(r.Err, "the job "+args[0]+" is stored") {
			t.Errorf("%s: exit %d, %s%s", args[0], r.Code, r.Out, r.Err)
		}
	}
	var jobs int
	if err := conn.QueryRow(t.Context(), `select count(*) from jobs where action in ('approve', 'reject') or action = 'done' and effect = 'finance-export' and reference = 'journal 7'`).Scan(&jobs); err != nil || jobs != 3 {
		t.Errorf("%d jobs, %v; want 3", jobs, err)
	}
	if r := s.Pawl(t, "events", "mark-done", "--status", "dead", "--reason", "x", "--yes"); r.Code != command.ExitUsage || !strings.Contains(r.Err, "needs --reference") {
		t.Errorf("without a reference: exit %d, %s", r.Code, r.Err)
	}
}

func TestBulk_NothingToDo_SaysSo(t *testing.T) {
	t.Parallel()
	s, _ := parkedStack(t, 1)
	r := s.Pawl(t, "events", "retry", "--status", "dead", "--type", "none", "--reason", "x")
	if r.Code != command.ExitFailed || !strings.Contains(r.Err, "no event matches the filter") {
		t.Errorf("exit %d, %s", r.Code, r.Err)
	}
}

func TestJobs_ListShowAndPause(t *testing.T) {
	t.Parallel()
	s, dsn := parkedStack(t, 3)
	if r := s.Pawl(t, "jobs", "list", "--json"); strings.TrimSpace(r.Out) != "[]" {
		t.Errorf("none: %s%s", r.Out, r.Err)
	}
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into jobs (id, action, filter, who, why, rate, money, state, items, done, refused, changed_at)
			values ('mended', 'retry', '{"status":"dead"}', 'ada', 'finance is back', 5, '{"usd":3000}', 'running', 3, 1, 1, now() - interval '10 minutes')`,
		`insert into job_items (job, target, name, result, note) values
			('mended', '00000000-0000-0000-0000-000000000001', 'evt_1', 'done', ''), ('mended', '00000000-0000-0000-0000-000000000002', 'evt_2', 'refused', 'evt_2 is processed'),
			('mended', '00000000-0000-0000-0000-000000000003', 'evt_3', '', '')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if list := commandtest.Decode[[]job.Job](t, s.Pawl(t, "jobs", "list", "--json")); len(list) != 1 || list[0].ID != "mended" || list[0].Left() != 1 {
		t.Errorf("list %+v", list)
	}
	r := s.Pawl(t, "jobs", "show", "mended")
	for _, want := range []string{"retry, of events with --status dead", "by ada", "1 done, 1 refused, 0 failed, 1 left", "1 dead: effect_failed", "evt_2 is processed", "no progress for 10 min", "jobs resume mended"} {
		if r.Code != 0 || !strings.Contains(r.Out, want) {
			t.Errorf("exit %d, the screen does not have %q:\n%s%s", r.Code, want, r.Out, r.Err)
		}
	}
	if strings.Index(r.Out, "evt_2") > strings.Index(r.Out, "evt_3") {
		t.Errorf("the refused items are not first:\n%s", r.Out)
	}
	if shown := commandtest.Decode[struct{ List []job.Item }](t, s.Pawl(t, "jobs", "show", "mended", "--result", "open", "--json")); len(shown.List) != 1 || shown.List[0].Name != "evt_3" {
		t.Errorf("open: %+v", shown)
	}
	if status := s.Pawl(t, "status"); !strings.Contains(status.Out, "mended") || !strings.Contains(status.Out, "jobs show mended") {
		t.Errorf("status does not show the job:\n%s", status.Out)
	}
	// A pause does not require Temporal, and is recorded in the audit trail.
	if r := s.Pawl(t, "jobs", "pause", "mended", "--reason", "wait", "--as", "bob"); r.Code != 0 || !strings.Contains(r.Out, "it is paused: 1 done") {
		t.Errorf("pause: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	if r := s.Pawl(t, "jobs", "show", "mended"); !strings.Contains(r.Out, " bob: wait") {
		t.Errorf("paused:\n%s", r.Out)
	}
	if r := s.Pawl(t, "audit", "list", "--target", "mended"); !strings.Contains(r.Out, "pause-job") || !strings.Contains(r.Out, "bob") {
		t.Errorf("audit:\n%s", r.Out)
	}
	for want, args := range map[string][]string{
		"mended is paused already": {"pause", "mended", "--reason", "x"}, `no job "none"`: {"show", "none"}, "no job \"other\"": {"cancel", "other", "--reason", "x"},
	} {
		if r := s.Pawl(t, append([]string{"jobs"}, args...)...); r.Code != command.ExitFailed || !strings.Contains(r.Err, want) {
			t.Errorf("jobs %v: exit %d, %s; want %q", args, r.Code, r.Err, want)
		}
	}
	if r := s.Pawl(t, "jobs", "show", "mended", "--result", "odd"); r.Code != command.ExitUsage {
		t.Errorf("an odd result: exit %d", r.Code)
	}
}

// A token is created, printed once, listed without its secret, and revoked.
func TestTokens_NewListRevoke(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "tokens", "new", "shop", "--reason", "x"); r.Code != 2 || !strings.Contains(r.Err, "--role") {
		t.Errorf("without a role: exit %d, %s", r.Code, r.Err)
	}
	r := s.Pawl(t, "tokens", "new", "shop", "--role", "viewer", "--expires", "90d", "--networks", "10.0.0.0/8", "--reason", "the shop asks")
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	if r.Code != 0 || len(lines) != 2 || !token.WellFormed(lines[1]) {
		t.Fatalf("exit %d, %s%s; want a token in a line of its own", r.Code, r.Out, r.Err)
	}
	if r := s.Pawl(t, "tokens", "revoke", "shop", "--reason", "it leaked"); r.Code != 0 {
		t.Errorf("revoke: exit %d, %s", r.Code, r.Err)
	}
	r = s.Pawl(t, "tokens", "list", "--wide")
	if !strings.Contains(r.Out, "revoked") || !strings.Contains(r.Out, "10.0.0.0/8") || strings.Contains(r.Out, lines[1]) {
		t.Errorf("listed as\n%s", r.Out)
	}
}
