package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// intake lists an ingress' rights by table and verb: it writes what comes in, and says when it was handed on. It reads
// no body, and deletes only short-lived rows. It writes a body anew when a source wants an event that another ignored.
var intake = []string{
	"select, insert, update on receipts, runs, transmissions, source_counts, source_hours, source_failures",
	"insert, select (receipt_id, trace), update (headers, body) on receipt_bodies",
	"insert on redeliveries",
	"select, insert on interventions",
	"select, insert, delete on probes",
	"select, insert, update, delete on rejections",
	"select, update (next_at) on due",
	"select on pauses",
}

// grantIngress lets role do what an ingress does, which is open to the network, and nothing else: see [intake].
func grantIngress(ctx context.Context, tx pgx.Tx, role string) error {
	var statements []string
	for _, may := range intake {
		statements = append(statements, "grant "+may+" to %s")
	}
	return grant(ctx, tx, role, statements...)
}

// grantWorker lets role do what a worker does, and who operates pawl: read and write all rows but those of the audit
// trail, to which it only adds.
func grantWorker(ctx context.Context, tx pgx.Tx, role string) error {
	return grant(ctx, tx, role, "grant select, insert, update, delete on all tables in schema public to %s",
		"grant execute on function "+functions+" to %s",
		"revoke update, delete on operator_actions, looks from %s",
		"revoke insert, update, delete on "+versionTable+" from %s")
}

// functions are those by which roles read, and erase, what they have no right to read.
const functions = "trim_looks, held_body, kept_request, naming, requests_kept, forget"

// hidden lists what a console reads by the functions alone that want a look recorded, or not at all.
var hidden = map[string][]string{
	"receipt_bodies": {"body"}, "rejections": {"query", "headers", "body"}, "effects": {"request"},
}

// deciding lists a console's rights to write. Its decisions change no fact, ledger or audit trail, and delete nothing
// but what a fold writes anew. The database holds the rest of it to the audit trail: see the trigger decided.
var deciding = []string{
	"insert on operator_actions, facts, receipts, redeliveries, transmissions, job_items",
	"insert (what, who, why) on looks",
	"insert, update, delete on sessions, pending_decisions, due, grants",
	"insert, update on accounts, addresses, finance_corrections, invoices, jobs, objects, outbox",
	"insert, update on pauses, subscriptions, tasks, tokens",
	"update on receipts",
	"insert, update (headers, body) on receipt_bodies",
	"update (admitted_at) on rejections",
}

// grantConsole lets role do what a console does: it reads all rows, but see [hidden], and decides, see [deciding].
func grantConsole(ctx context.Context, tx pgx.Tx, role string) error {
	statements := []string{"grant select on all tables in schema public to %s",
		"revoke select on held_bodies, quotas from %s", "grant execute on function " + functions + " to %s"}
	for _, may := range deciding {
		statements = append(statements, "grant "+may+" to %s")
	}
	for _, table := range slices.Sorted(maps.Keys(hidden)) {
		columns, err := List[string](ctx, tx, "read the columns of "+table, columnsBut, table, hidden[table])
		if err != nil {
			return err
		}
		statements = append(statements, "revoke select on "+table+" from %s",
			"grant select ("+strings.Join(columns, ", ")+") on "+table+" to %s")
	}
	return grant(ctx, tx, role, statements...)
}

const columnsBut = `
select quote_ident(attname) from pg_attribute
 where attrelid = ('public.' || $1)::regclass and attnum > 0 and not attisdropped and attname <> all($2)
 order by attnum`

// Confined returns the role of a connection, and whether that is a console's and no more.
func Confined(ctx context.Context, db Querier) (role string, confined bool, err error) {
	as, err := One[struct {
		Role     string
		Confined bool
	}](ctx, db, "ask for the database's role", `select current_user as role, is_console() as confined`)
	return as.Role, as.Confined, err
}

// readers selects the views for readers outside of pawl, whose names alone begin so.
const readers = `
select viewname from pg_views where schemaname = 'public' and viewname like 'pawl\_%' order by 1`

// grantReader lets role read the views for readers, and nothing else.
func grantReader(ctx context.Context, tx pgx.Tx, role string) error {
	views, err := List[string](ctx, tx, "list the views for readers", readers)
	if err != nil {
		return err
	}
	return grant(ctx, tx, role, "grant select on "+strings.Join(views, ", ")+" to %s")
}

// grant gives role the rights of the statements, and takes all others.
func grant(ctx context.Context, tx pgx.Tx, role string, statements ...string) error {
	statements = append([]string{
		"revoke all on all tables in schema public from %s", "revoke all on function " + functions + " from %s",
		"grant usage on schema public to %s", "grant select on " + versionTable + " to %s",
	}, statements...)
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, fmt.Sprintf(sql, pgx.Identifier{role}.Sanitize())); err != nil {
			return err
		}
	}
	return nil
}
