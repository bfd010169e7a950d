package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	if r := s.Pawl(t, "status"); r.Code != 0 || !strings.Contains(r.Out, "no problems") || strings.Contains(r.Out, "Continue with") {
		t.Errorf("of nothing: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'billing', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid',
			       now() - (20 - n) * interval '1 hour', '\x01', status, reason
			  from (values (1, 'dead', 'effect_failed: x'), (2, 'dead', 'effect_failed: y'), (3, 'retrying', 'sink_down: finance is down')) as t(n, status, reason)`,
		`insert into event_subjects (receipt_id, object, main, amount, currency)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'in_' || n, true, 49900, 'usd' from generate_series(1, 3) as n`,
		`insert into breakers (sink, open, since, reason, probe_at) values ('finance', true, now(), 'f.test answered 503', now())`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	report := commandtest.Decode[report.Status](t, s.Pawl(t, "status", "--json"))
	if dead := report.Conditions[0]; dead.Name != "parked:live:dead:financial:effect_failed" || dead.Count != 2 || dead.Money["usd"] != 99800 || len(report.Conditions) != 2 ||
		report.Oldest.EventID != "evt_1" || len(report.Sinks) != 3 {
		t.Errorf("report %+v", report)
	}
	r := s.Pawl(t, "status")
	for _, want := range []string{"evt_1 (invoice.paid), dead: effect_failed, received 19 h", "998.00 USD", "sink_down", "f.test answered 503", "events retry --status dead --reason-code effect_failed --mode live --dry-run"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("screen does not show %q:\n%s", want, r.Out)
		}
	}
	// The output ends with valid commands that show the listed problems.
	_, commands, _ := strings.Cut(r.Out, "Continue with:\n")
	found := 0
	for line := range strings.Lines(commands) {
		args, ours := commandtest.Arguments(line)
		if !ours {
			t.Fatalf("%q is no command", line)
		}
		if args[len(args)-1] == "doctor" || args[len(args)-1] == "sinks" { // these commands list no events
			continue
		}
		found++
		if shown := commandtest.Run(t, program(), "", s.Env, args...); shown.Code != 0 || !strings.Contains(shown.Out, "evt_") {
			t.Errorf("%s: exit %d, %s%s", line, shown.Code, shown.Out, shown.Err)
		}
	}
	if found < 3 {
		t.Errorf("%d commands:\n%s", found, commands)
	}
}

// After the first run of retention, the status shows the size and the growth of the database, and what the run did.
func TestStatus_Database_SizeGrowthAndLastRun(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into retention_runs (started_at, ended_at, deleted, paused_seconds, complete, bytes, tables) values
			(now() - interval '2 days', now() - interval '2 days', '{}', 0, true, 1 << 30, '{}'),
			(now(), now(), '{"payloads": 12, "published_events": 3, "runs": 0}', 65, false, 3 * (1 << 29), '{"receipt_bodies": 1048576, "receipts": 2097152}')`); err != nil {
		t.Fatal(err)
	}
	report := commandtest.Decode[report.Status](t, s.Pawl(t, "status", "--json"))
	if d := report.Database; d == nil || *d.GrowthPerDay != 1<<28 || d.LastRun.Deleted["payloads"] != 12 || d.Tables["receipts"] != 2<<20 {
		t.Errorf("the database is %+v", d)
	}
	r := s.Pawl(t, "status")
	for _, want := range []string{"1.5 GiB", "256.0 MiB", "12 payloads, 3 published events", "waited 1m5s because deliveries were answered slowly; the next run deletes the rest", "receipt_bodies"} {
		if !strings.Contains(strings.Join(strings.Fields(r.Out), " "), want) {
			t.Errorf("the screen does not show %q:\n%s", want, r.Out)
		}
	}
}

// If the sum of two amounts exceeds 64 bits, the sum is wrong, but no command fails.
func TestStatus_AmountsBeyond64Bits_Shown(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `with parked as (
			insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
			select gen_random_uuid(), 'billing', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', 'in_' || n, now(), '\x01', 'dead', 'effect_failed: x'
			  from generate_series(1, 2) n returning id, object_id)
		insert into event_subjects (receipt_id, object, main, amount, currency) select id, object_id, true, 9223372036854775807, 'usd' from parked`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"events", "retry", "--status", "dead", "--dry-run"}} {
		if r := s.Pawl(t, args...); r.Code != 0 || !strings.Contains(r.Out, "92233720368547758.07 USD") {
			t.Errorf("%v: exit %d, without the sum:\n%s%s", args, r.Code, r.Out, r.Err)
		}
	}
}

// Each problem has a row and a command in the output.
func TestStatus_Conditions_EachWithACommand(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"}).At(t, commandtest.Away)
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values (gen_random_uuid(), 'billing', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now() - interval '7 minutes', '\x01', 'processing')`,
		`insert into pauses (kind, name, who, why) values ('source', 'billing', 'ada', 'moving')`,
		`insert into tasks (mode, kind, object, state, title, effect_key, created_at, due_by) values
			('live', 'dispute', 'dp_1', 'open', 'answer', '', now() - interval '3 days', '2027-01-20 12:00'), ('live', 'unknown_price', 'sub_1', 'open', 'map', '', now(), null)`,
		`insert into rejections (id, source, received_at, class, headers, body) select gen_random_uuid(), 'billing', now(), 'no_matching_signature', '{}', '' from generate_series(1, 12)`,
		`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, attempts, last_error)
			values (gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 7, 'destination crm: answered 503')`,
		`with parked as (
			insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, duplicates)
			values (gen_random_uuid(), 'billing', 'stripe', 'live', 'evt_2', 'id', 'invoice.paid', now() - interval '1 day', '\x01', 'dead', 'effect_failed: x', 3) returning id)
			insert into redeliveries (receipt_id, source, received_at, body_hash) select id, 'billing', now(), '\x01' from parked, generate_series(1, 3)`,
		`insert into objects (mode, kind, id, state, updated_at) values ('live', 'payment', 'pi_1', '{"Status":"succeeded","Amount":1500,"Currency":"usd"}', now() - interval '1 hour')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Pawl(t, "status")
	for _, want := range []string{
		"source billing is paused: by ada: moving", "sources resume billing --reason REASON", "12 deliveries rejected in the last hour: no secret of the source fits the signature", "rejections list --source billing",
		"destination crm does not accept events: 7 attempts, the last error: answered 503", "sinks check", "Temporal does not answer", " doctor ",
		"1 open task in live mode: answer a dispute, due by 2027-01-20 12:00 UTC", "tasks list --kind dispute --mode live", "tasks list --kind unknown_price --mode live",
		"source billing keeps delivering 1 parked event in live mode: 3 deliveries within an hour", " events show evt_2",
		"15.00 USD", "1 payment in live mode not booked", "payments unassigned --mode live",
	} {
		if r.Code != 0 || !strings.Contains(r.Out, want) {
			t.Errorf("exit %d, screen does not show %q:\n%s%s", r.Code, want, r.Out, r.Err)
		}
	}
}

func TestAuditVerify(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "audit", "verify"); r.Code != 0 || !strings.Contains(r.Out, "no actions yet") {
		t.Errorf("nothing done: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'ignored', '', '')`); err != nil {
		t.Fatal(err)
	}
	if r := s.Pawl(t, "events", "start", "evt_1", "--reason", "wanted"); r.Code != 0 {
		t.Fatal(r.Err)
	}
	good := commandtest.Decode[auditReport](t, s.Pawl(t, "audit", "verify", "--json"))
	if !good.Intact || good.Actions != 1 || good.Head == "" {
		t.Errorf("report %+v", good)
	}
	if r := s.Pawl(t, "audit", "verify", "--head", good.Head); r.Code != 0 || !strings.Contains(r.Out, good.Head) {
		t.Errorf("with its head: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	if r := s.Pawl(t, "audit", "verify", "--head", strings.Repeat("0", 64)); r.Code != 1 || !strings.Contains(r.Out, "none of its 1 rows") {
		t.Errorf("with another's head: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	if _, err := conn.Exec(t.Context(), `update operator_actions set actor = 'eve'`); err != nil {
		t.Fatal(err)
	}
	r := s.Pawl(t, "audit", "verify", "--json")
	if bad := commandtest.Decode[auditReport](t, r); r.Code != 1 || bad.Intact || !strings.Contains(bad.Problem, "row 1 (run by eve)") {
		t.Errorf("tampered with: exit %d, %+v", r.Code, bad)
	}
}

func TestAuditList(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "audit", "list", "--json"); strings.TrimSpace(r.Out) != "[]" {
		t.Errorf("nothing done: %q%s", r.Out, r.Err)
	}
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		select gen_random_uuid(), 's', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', now(), '\x01', 'ignored' from generate_series(1, 3) n`); err != nil {
		t.Fatal(err)
	}
	var last commandtest.Result
	for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
		if last = s.Pawl(t, "events", "start", id, "--reason", "wanted", "--as", "ada", "--log-level", "debug"); last.Code != 0 {
			t.Fatal(last.Err)
		}
	}
	all := commandtest.Decode[[]audit.Row](t, s.Pawl(t, "audit", "list", "--json"))
	if len(all) != 3 || all[0].Target != "evt_3" || !strings.HasSuffix(all[0].Actor, " ada") || all[0].Action != "run" || all[0].Reason != "wanted" {
		t.Errorf("all: %+v", all)
	}
	// An action prints the new head of the audit trail if the log is enabled.
	if !strings.Contains(last.Err, "msg=audit") || !strings.Contains(last.Err, all[0].Hash) || strings.Contains(last.Err, "wanted") {
		t.Errorf("logged %q, want the head %s and no reason", last.Err, all[0].Hash)
	}
	if one := commandtest.Decode[[]audit.Row](t, s.Pawl(t, "audit", "list", "--target", "evt_2", "--action", "run", "--since", "1h", "--json")); len(one) != 1 || one[0].Target != "evt_2" {
		t.Errorf("of evt_2: %+v", one)
	}
	if r := s.Pawl(t, "audit", "list", "--actor", "bob"); strings.Contains(r.Out, "ada") || r.Code != 0 {
		t.Errorf("of bob: exit %d, %s", r.Code, r.Out)
	}
	r := s.Pawl(t, "audit", "list", "--limit", "2")
	if !strings.Contains(r.Err, fmt.Sprintf("--cursor %d", all[1].ID)) || strings.Contains(r.Out, "evt_1") {
		t.Errorf("two of three: %s%s", r.Out, r.Err)
	}
	if rest := commandtest.Decode[[]audit.Row](t, s.Pawl(t, "audit", "list", "--json", "--cursor", fmt.Sprint(all[1].ID))); len(rest) != 1 || rest[0].Target != "evt_1" {
		t.Errorf("the rest: %+v", rest)
	}
}
