package schema

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// privilege is a set of rights of a role on tables or views. The lists in this file are complete: [SetRoles] grants
// these privileges, [LacksAsWorker] compares a role with them, and a test compares them with the actual rights on each
// column.
type privilege struct {
	verbs string
	// columns are the columns that the right is limited to, or "" for all. If the text begins with "but", the right
	// covers all columns except these.
	columns string
	tables  string
	why     string
}

// everyTable means all tables, except the tables after the word "but".
const everyTable = "every table"

// ingressPrivileges belong to an ingress, which is reachable from the network. An ingress may not read payloads.
var ingressPrivileges = []privilege{
	{"select, insert", "", "receipts", "it records events, and starts runs of waiting events"},
	{"update", "but id, provider, account, mode, event_id, relay_of", "receipts",
		"it counts deliveries, takes over ignored events, and records starts"},
	{"insert", "receipt_id, headers, body", "receipt_bodies", "it stores received requests"},
	{"select", "receipt_id, trace", "receipt_bodies", "a run continues the trace of its delivery"},
	{"update", "headers, body", "receipt_bodies", "a source takes over an event that another source ignored"},
	{"insert", "receipt_id, source, received_at, body_hash, secret_label, outcome", "redeliveries",
		"it records later deliveries"},
	{"select, insert, update", "", "transmissions, source_counts, source_hours, source_failures",
		"it detects repeated transmissions, and counts requests"},
	{"select, insert, update", "", "runs", "it records the runs that it starts"},
	{"select, insert", "", "interventions", "it finds runs that a person ended in Temporal"},
	{"select, insert, delete", "", "rejections", "it stores rejected requests, and deletes old ones"},
	{"select", "", "due", "it starts the runs of scheduled actions"},
	{"update", "next_at", "due", "it leases scheduled actions"},
	{"select", "", "pauses", "a paused source starts no runs"},
	{"select", "", "effects_from", "it checks when effects begin"},
	{"insert", "mode, at, changed_by", "effects_from", "the first start stores when effects begin"},
	{"select", "", "reloads", "an operator requests that it loads its configuration again"},
	{"select", "", "schema_version", "it checks that its version fits the database"},
}

// workerPrivileges belong to workers, and to the command line of operators. They permit neither the deletion of
// receipts, facts and effects, nor the change of a decision.
var workerPrivileges = []privilege{
	{"select", "", everyTable + " but sessions", "flows and decisions read all of it"},
	{"select", "", "bodies, deliveries, current_facts, attempts, payments, refunds, disputes, fraud_warnings, credit_notes, " +
		"checkouts, entitlements", "the views of these tables"},
	{"select", "", readerViews, "the command line shows what readers see"},
	{"insert", "", everyTable + " but sessions, schema_version, console_requests, operator_actions, recoveries, facts, redeliveries, " +
		"effect_attempts, outbox, pauses, reloads, outages, billing_rules_changes, notice_messages, readings, tokens, jobs",
		"flows and decisions write rows"},
	{"insert", "but id, at", "operator_actions, billing_rules_changes",
		"a chosen number or time would hide later rows"},
	{"insert", "but at", "recoveries", "a chosen time would hide later rows"},
	{"insert", "but id, recorded_at", "facts", "a chosen number would hide later facts"},
	{"insert", "but id", "redeliveries, effect_attempts, notice_messages, outages", "Postgres numbers the rows"},
	{"insert", "but id, created_at", "outbox", "destinations get events in this order"},
	{"insert", "but id, since", "pauses", "since is the current time"},
	{"insert", "but id, requested_at", "reloads", "a chosen number would hide later requests"},
	{"insert", "but at", "readings", "a parse of payloads is recorded with the current time"},
	{"insert", "but made_at, used_at, revoked_at", "tokens", "a new token is unused"},
	{"insert", "but created_at", "jobs", "created_at is the current time"},
	{"update", "but id, provider, account, mode, event_id", "receipts",
		"a run moves its receipt; the event stays the same"},
	{"update", "headers, body", "receipt_bodies", "an import takes over an event that was ignored"},
	{"update", "", "transmissions, source_counts, source_hours, source_failures, endpoints", "counts grow"},
	{"update", "admitted_at", "rejections", "a person admits a refused request"},
	{"update", "but workflow_id, run_id, receipt_id, started_at", "runs", "a run ends"},
	{"update", "but key", "effects", "effects are claimed and done"},
	{"update", "error", "effect_attempts", "an address in an error is erased"},
	{"update", "", "effect_waits, breakers, imports, quotas, notices", "the rows contain the current state"},
	{"update", "until, told", "pauses", "a pause ends"},
	{"update", "until", "outages", "an outage ends"},
	{"update", "proposed_by, proposed_at", "billing_rules", "a process proposes again"},
	{"update", "at, changed_at, changed_by", "effects_from", "a person switches effects on and off"},
	{"update", "released_at", "withheld", "a person releases withheld effects"},
	{"update", "", "event_subjects, addresses, accounts, subscriptions, invoices, objects, grants, due, workspaces", "the rows are computed from facts"},
	{"update", "but mode, kind, object", "tasks", "tasks are opened, closed and assigned"},
	{"update", "attempts, next_at, last_error, delivered_to, published_at, flows_at", "outbox", "events are delivered"},
	{"update", "attempts, next_at, last_error, sent_at", "notice_messages", "messages are sent"},
	{"update", "state, state_note, done, refused, failed, changed_at, started_at, finished_at", "jobs",
		"a job makes progress"},
	{"update", "attempts, result, note, ended_at", "job_items", "an item is decided"},
	{"update", "used_at, revoked_at", "tokens", "a token is used, and revoked"},
	{"update", "", "pending_decisions", "the first person replaces a decision"},
	{"update", "input, taken_at, answer", "console_requests", "a worker executes requests"},
	{"delete", "", "receipt_bodies, rejections", "a customer is forgotten, and old data expires"},
	{"delete", "", "source_counts, source_hours, effect_waits, notices, notice_messages, console_requests",
		"the rows have expired"},
	{"delete", "", "event_subjects, subscriptions, invoices, objects, grants, due",
		"a repair removes rows without facts"},
	{"delete", "", "pending_decisions", "a decision is made, or expires"},
	{"delete", "", "redeliveries, effect_attempts, runs, interventions, outbox, jobs, job_items, retention_runs",
		"old rows expire: docs/operations/database-growth.md"},
}

// consolePrivileges belong to a console, which many people use. A console may read the data that its pages show, but no
// payload. It writes requests, which a worker executes; see package request.
var consolePrivileges = []privilege{
	{"select", "", everyTable + " but receipt_bodies, rejections, effects, addresses, quotas, tokens, sessions, " +
		"console_requests", "its pages"},
	{"select", "", "deliveries, current_facts, attempts, payments, refunds, disputes, fraud_warnings, credit_notes, " +
		"checkouts, entitlements", "the views of these tables"},
	{"select", "", readerViews, "the API shows what readers see"},
	{"select", "but query, headers, body", "rejections", "counts of refused requests"},
	{"select", "but request", "effects", "a request may contain an address"},
	{"select", "receipt_id", "receipt_bodies", "whether a payload is kept"},
	{"select", "customer, email_hash", "addresses", "the search for an address"},
	{"select", "", "tokens", "it verifies the tokens of programs; the stored hash is no credential"},
	{"update", "used_at", "tokens", "when a token was used"},
	{"select, delete", "", "sessions", "people sign in and out"},
	{"insert", "but created_at, seen_at", "sessions", "people sign in"},
	{"update", "seen_at", "sessions", "a session that is not used expires"},
	{"insert", "id, kind, input", "console_requests", "it requests decisions, previews and views"},
	{"select", "id, answer", "console_requests", "it reads the answers"},
}

// readerViews are the views for external readers; docs/data.md describes them.
const readerViews = "pawl_accounts, pawl_features, pawl_subscriptions, pawl_invoices, pawl_entries, pawl_tasks, pawl_events, " +
	"pawl_outages"

// readerPrivileges belong to the role for reports and data warehouses.
var readerPrivileges = []privilege{{"select", "", readerViews, "the only views with stable names and columns"}}

// column is a right on one column of a table.
type column struct{ Verb, Table, Column string }

const columnsSQL = `
select c.relname::text as "table", c.relkind in ('r', 'p') as "is", a.attname::text as "column"
  from pg_class c join pg_attribute a on a.attrelid = c.oid
 where c.relnamespace = to_regnamespace('public') and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped
 order by c.relname, a.attnum`

// layout lists the columns of each table and view, and which of them are tables.
type layout struct {
	columns map[string][]string
	tables  map[string]bool
	names   []string
}

func readLayout(ctx context.Context, db Querier) (l layout, err error) {
	rows, err := Rows(ctx, db, "read the columns of all tables", pgx.RowToStructByPos[struct {
		Table  string
		Is     bool
		Column string
	}], columnsSQL)
	l = layout{map[string][]string{}, map[string]bool{}, nil}
	for _, r := range rows {
		if l.columns[r.Table] == nil {
			l.names = append(l.names, r.Table)
		}
		l.columns[r.Table], l.tables[r.Table] = append(l.columns[r.Table], r.Column), r.Is
	}
	return l, err
}

// words splits a list into the names before the word "but" and the exceptions after it.
func words(list string) (names, but []string) {
	if list == "" {
		return nil, nil
	}
	before, after, _ := strings.Cut(list, "but ")
	split := func(s string) (names []string) {
		for _, name := range strings.Split(s, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		return names
	}
	return split(before), split(after)
}
