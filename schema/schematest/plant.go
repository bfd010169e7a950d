package schematest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Planted is a hostile value for names, types and errors: a formula, HTML and Markdown, and characters that move the
// cursor, hide text, or reverse its direction. No page or output may show it unescaped.
const Planted = "=1+1<script>alert(1)</script><img src=x onerror=alert(2)>\"'`*\\[x](javascript:3)|\u202egnp.exe\u2066\u200b\u00ad\U000e0041\x1b[2J\u009b\r"

// HiddenIn are the hidden characters of [Planted].
const HiddenIn = "\u202e\u2066\u200b\u00ad\U000e0041\x1b\u009b\r"

// PlantedID is the ID of the receipt that [Plant] creates.
const PlantedID = "01890000-0000-7000-8000-000000000001"

// Plant writes [Planted] into every column that contains data from outside.
func Plant(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, api_version, received_at, body_hash,
			secret_label, correlation_id, status, reason, workflow_id, last_error) values
			(@id, @x, @x, @x, 'live', @x, 'id', @x, @x, @x, now(), '\x01', @x, @x, 'dead', 'effect_failed: ' || @x, @x, @x)`,
		`insert into receipt_bodies (receipt_id, headers, body) values (@id, '{}', convert_to(json_build_object(@x::text, @x::text)::text, 'UTF8'))`,
		`insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label) values (@id, @x, now(), '\x01', @x)`,
		`insert into runs (workflow_id, run_id, receipt_id, kind, requested_by, reason, outcome) values (@x, @x, @id, 'replay', @x, @x, @x)`,
		`insert into interventions (workflow_id, run_id, what, receipt_id, at, who, why) values (@x, @x, 'reset', @id, now(), @x, @x)`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error, result) values
			(@x, @x, 'failed', @id, @x, @x, now(), @x, json_build_object(@x::text, @x::text))`,
		`insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error) values (@x, 1, @id, @x, 1, 'failed', now(), @x)`,
		`insert into breakers (sink, open, since, reason, said, about, events, probe_at) values (@x, true, now(), @x, @x, array[@x], array[@x], now())`,
		`insert into outages (sink, since, until, reason, answer) values (@x, now() - interval '1 hour', now(), @x, @x)`,
		`insert into outage_events (outage, receipt_id, mode) select id, @id, 'live' from outages`,
		`insert into pauses (kind, name, who, why) values ('sink', 'finance', @x, @x), ('source', 'stripe', @x, @x)`,
		`insert into rejections (id, source, received_at, class, detail, diagnosis, remote_addr, method, query, headers, body) values
			('01890000-0000-7000-8000-000000000002', @x, now(), 'no_matching_signature', @x, json_build_array(json_build_object('code', 'c', 'text', @x::text)), @x, @x,
			@x, '{}', convert_to(json_build_object(@x::text, @x::text)::text, 'UTF8'))`,
		`insert into event_subjects (receipt_id, object, main, account, customer, number, currency) values (@id, @x, true, @x, @x, @x, @x)`,
		`insert into facts (provider, provider_account, mode, kind, object, customer, event_id, event_type, receipt_id, occurred_at, rank, origin, data) values
			(@x, @x, 'live', 'invoice_seen', @x, @x, @x, @x, @id, now(), 1, 'event', '{}')`,
		`insert into accounts (mode, id, provider, customer, target_version, target_state, target_plan, target_features) values ('live', @x, @x, @x, 1, 'active', @x, array[@x])`,
		`insert into subscriptions (mode, id, account, customer, status, plan, state) values ('live', @x, @x, @x, @x, @x, json_build_object('ID', @x::text, 'Status', @x::text,
			'Plan', @x::text, 'Cause', jsonb_build_object('EventID', @x::text)))`,
		`insert into invoices (mode, id, account, customer, status, amount, currency, period_start, occurred_at, page, state) values ('live', @x, @x, @x, @x, 1, @x, now(), now(), @x,
			json_build_object('ID', @x::text, 'Number', @x::text, 'Status', @x::text, 'Currency', @x::text))`,
		`insert into objects (mode, kind, id, account, invoice, state) values ('live', 'refund', @x, @x, @x, json_build_object('Status', @x::text, 'Amount', 1, 'Currency', @x::text))`,
		`insert into grants (mode, object, account, plan, add_ons, because) values ('live', @x, @x, @x, array[@x], @x)`,
		`update accounts set target_features = array[@x], known_features = array[@x] where id = @x`,
		`insert into workspaces (mode, account, version, state, plan, features, effect_key) values ('live', @x, 1, 'active', @x, array[@x], @x)`,
		`insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, reference) values (@x, 'live', @x, @x, @x, 'payment', 1, @x, 1, @x)`,
		`insert into skipped_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, occurred_at, event_id, actor, reason) values
			(@x, 'live', @x, @x, @x, 'payment', 1, @x, 1, now(), @x, @x, @x)`,
		`insert into due (mode, owner, account, object, why, at, provider, event_id, receipt_id, occurred_at, next_at) values
			('live', @x, @x, @x, 'end', now() + interval '1 day', @x, @x, @id, now(), now() + interval '1 day')`,
		`insert into addresses (customer, mode, provider, email, name, said) values (@x, 'live', @x, @x, @x, '')`,
		`insert into tasks (mode, kind, object, account, state, title, effect_key, taken_by) values ('live', @x, @x, @x, 'open', @x, @x, @x)`,
		`insert into jobs (id, action, effect, reference, filter, who, why, rate, money, state, state_note, items) values
			('job-1', 'retry', @x, @x, json_build_object('type', @x::text), @x, @x, 1, json_build_object(@x::text, 1), 'paused', @x, 1)`,
		`insert into job_items (job, target, name, result, note) values ('job-1', @id::text, @x, 'failed', @x)`,
		`insert into tokens (name, hash, role, made_by) values ('shop', sha256(''), @x, @x)`,
		`insert into pending_decisions (id, subject, verb, target, args, asked_by, asked_issuer, asked_subject, why, money, chosen, state, until) values
			('p-1', @x, 'approve', @x, json_build_object('effect', @x::text), @x, @x, @x, @x, json_build_object(@x::text, 1), '{}', sha256(''), now() + interval '1 day')`,
		`insert into operator_actions (request_id, actor, action, target, reason, before, after, prev_hash, hash) values
			(@x, @x, @x, @x, @x, json_build_object('receipt', @id::text), json_build_object('kind', @x::text, 'mode', 'live'), '\x00', '\x01')`,
		`insert into source_counts (source, what, name, day, count, last) values ('stripe', 'refused', @x, current_date, 1, now())`,
		`insert into endpoints (source, looked_at, findings) values ('stripe', now(), json_build_array(json_build_object('kind', @x::text, 'message', @x::text, 'found_at', now())))`,
	} {
		// It is quoted as a literal, because a parameter would need a different type in each statement.
		quoted := "'" + strings.ReplaceAll(Planted, "'", "''") + "'"
		sql = strings.NewReplacer("@id", "'"+PlantedID+"'", "@x", quoted).Replace(sql)
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.300s: %v", sql, err)
		}
	}
}
