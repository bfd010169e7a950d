package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/schematest"
)

// quietTemporal simulates a Temporal without workers and with one paused schedule.
type quietTemporal struct {
	client.Client
	schedules
}

type schedules struct {
	client.ScheduleClient
	listed bool
}

func (*quietTemporal) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}
func (q *quietTemporal) ScheduleClient() client.ScheduleClient { return &q.schedules }
func (s *schedules) List(context.Context, client.ScheduleListOptions) (client.ScheduleListIterator, error) {
	return s, nil
}
func (s *schedules) HasNext() bool { return !s.listed }
func (s *schedules) Next() (*client.ScheduleListEntry, error) {
	s.listed = true
	return &client.ScheduleListEntry{ID: "pawl:reconcile", Paused: true}, nil
}

// everyCondition creates a database state with each kind of condition.
var everyCondition = []string{
	`insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason, duplicates) values
		('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', '', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', now() - interval '1 day', '\x01', 'dead', 'effect_failed: x', 3),
		(gen_random_uuid(), 'stripe', 'stripe', '', 'live', 'evt_2', 'id', 'invoice.paid', 'in_2', now() - interval '1 hour', '\x01', 'received', '', 0),
		(gen_random_uuid(), 'stripe', 'stripe', '', 'live', 'evt_3', 'id', 'invoice.paid', 'in_3', now() - interval '1 hour', '\x01', 'processing', '', 0),
		(gen_random_uuid(), 'stripe', 'stripe', 'acct_9', 'live', 'evt_4', 'id', 'invoice.paid', 'in_4', now(), '\x01', 'ignored', 'account_not_mapped: x', 0),
		(gen_random_uuid(), 'github', 'github', '', 'live', 'evt_5', 'id', 'push', '', now(), '\x01', 'ignored', 'type_ignored: push', 0)`,
	`insert into event_subjects (receipt_id, object, main, amount, currency) select id, 'in_4', true, 4900, 'usd' from receipts where event_id = 'evt_4'`,
	`insert into redeliveries (receipt_id, source, received_at, body_hash) select '00000000-0000-0000-0000-000000000001', 'stripe', now(), '\x01' from generate_series(1, 3)`,
	`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		values ('receipt-email:stripe:live:in_1', 'receipt-email', 'uncertain', '00000000-0000-0000-0000-000000000001', 'evt_1', 'r', now() - interval '2 hours')`,
	`insert into tasks (mode, kind, object, account, state, title, effect_key, created_at) values ('live', 'unknown_price', 'acme:price 1', 'acme', 'open', 'map', '', now())`,
	`insert into pending_decisions (id, subject, verb, target, args, asked_by, asked_issuer, asked_subject, why, money, state, until)
		values ('1', '1', 'approve', 'x', '{}', 'ada', 'local', 'ada', 'x', '{"usd":1}', sha256(''), now() + interval '1 day')`,
	`insert into objects (mode, kind, id, state, updated_at) values ('live', 'payment', 'pi_1', '{"Status":"succeeded","Amount":1500,"Currency":"usd"}', now() - interval '1 hour')`,
	`insert into billing_rules (hash, body, proposed_by, proposed_at) values ('aa', '{}', 'w', now() - interval '1 hour'), ('bb', '{}', 'w', now()), ('cc', '{}', 'w', now())`,
	`insert into billing_rules_changes (hash, who, why, at) values ('aa', 'ada', 'x', now() - interval '3 days'), ('bb', 'ada', 'x', now() - interval '1 minute')`,
	`insert into jobs (id, action, filter, who, why, rate, state, items, done, failed, finished_at) values ('job 1', 'retry', '{}', 'ada', 'x', 1, 'finished', 3, 2, 1, now())`,
	`insert into breakers (sink, open, since, reason, said, probe_at) values ('finance', true, now() - interval '10 minutes', 'f.test answered 503', 'no', now())`,
	`insert into pauses (kind, name, who, why) values ('source', 'stripe', 'ada', 'moving'), ('sink', 'destinations:crm', 'ada', 'moving')`,
	`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, attempts, last_error, created_at)
		values (gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 7, 'destination crm: answered 503', now() - interval '20 minutes')`,
	`insert into notice_messages (sink, key, cause, body, page, created_at, last_error) values ('notify:team', 'k', 'c', '{}', false, now() - interval '1 hour', 'answered 503')`,
	`insert into source_counts (source, what, name, day, count, last)
		select 'stripe', 'admitted', 'secret-1', ((now() - n * interval '24 hours' - interval '1 minute') at time zone 'utc')::date, 10, now() - n * interval '24 hours' - interval '1 minute' from generate_series(1, 16) n`,
	`insert into source_hours (source, hour, count) select 'stripe', date_trunc('hour', now()) - n * interval '1 hour', 10 from generate_series(4, 28 * 24) n where n > 23 or n = 4`,
	`insert into source_failures (source, failures, since, last) values ('stripe', 9, now() - interval '9 days', now())`,
	`insert into endpoints (source, looked_at, off_since, findings) values ('stripe', now(), now(), '[{"kind":"off","message":"it is off","found_at":"2026-11-20T08:00:00Z"},{"kind":"version","about":"x","message":"it is old","found_at":"2026-11-20T08:00:00Z"}]')`,
	`insert into rejections (id, source, received_at, class, headers, body) values (gen_random_uuid(), 'stripe', now(), 'no_matching_signature', '{}', '')`,
}

// Each kind of condition occurs, has a runbook, and names a command that the program accepts.
func TestConditions_EachKind_RunbookAndCommand(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range everyCondition {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"}).With("KEY", "rk_live_1")
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "mode: live", "mode: live, api_key: 'env:KEY'", 1))
	cfg, err := config.Load(s.File, s.Variable, providers())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sources["github"] = config.Source{Provider: "github"}
	stripe := cfg.Sources["stripe"]
	stripe.Secrets = []config.Secret{{NotAfter: time.Now().Add(time.Hour)}}
	cfg.Sources["stripe"] = stripe
	o := &decide.Operator{Verbs: operator.Verbs, DB: db, Temporal: &quietTemporal{}, TaskQueue: "pawl", Places: map[string][]string{decide.Source: {"stripe"}}}
	found, err := condition.Reader{Operator: o, Config: cfg, AuditBroken: true}.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	triggered := map[string]bool{}
	for _, c := range found {
		triggered[c.Kind()] = true
		if _, err := os.Stat(filepath.Join(repository, "docs", "operations", c.Runbook+".md")); err != nil {
			t.Errorf("%s has no runbook: %v", c.Name, err)
		}
		args, ours := commandtest.Arguments("pawl " + c.Command)
		if !ours {
			t.Errorf("%s: %q is no command", c.Name, c.Command)
			continue
		}
		cmd, rest, err := tree().Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.Runnable() || cmd.Hidden {
			t.Errorf("%s: pawl %s: %v", c.Name, c.Command, err)
		}
		if c.Message == "" || c.Severity == "" || c.Count == 0 {
			t.Errorf("%+v lacks a message, a severity or a count", c)
		}
	}
	for _, k := range condition.Table() {
		if k.Queried() && !triggered[k.Name] {
			t.Errorf("nothing triggers %s", k.Name)
		}
	}
}
