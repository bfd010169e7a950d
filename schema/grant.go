package schema

import (
	"context"
	"fmt"
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
		"revoke update, delete on operator_actions from %s", "revoke insert, update, delete on "+versionTable+
			" from %s")
}

// readers selects the views for readers outside of pawl, whose names alone begin so.
const readers = `
select viewname from pg_views where schemaname = 'public' and viewname like 'pawl\_%' order by 1`

// grantReader lets role read the views for readers, and nothing else.
func grantReader(ctx context.Context, tx pgx.Tx, role string) error {
	rows, _ := tx.Query(ctx, readers) // CollectRows returns its error
	views, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return grant(ctx, tx, role, "grant select on "+strings.Join(views, ", ")+" to %s")
}

// grant gives role the rights of the statements, and takes all others.
func grant(ctx context.Context, tx pgx.Tx, role string, statements ...string) error {
	statements = append([]string{
		"revoke all on all tables in schema public from %s", "grant usage on schema public to %s", "grant select on " +
			versionTable + " to %s",
	}, statements...)
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, fmt.Sprintf(sql, pgx.Identifier{role}.Sanitize())); err != nil {
			return err
		}
	}
	return nil
}
