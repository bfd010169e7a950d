package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// intake are the tables that an ingress reads and writes: what comes in, and when it was handed on.
var intake = []string{
	"receipts", "receipt_bodies", "redeliveries", "transmissions", "rejections", "rejection_counts", "secret_uses", "probes", "runs", "interventions",
}

// grantIngress lets role do what an ingress does, which is open to the network, and nothing else: read and write what
// is in [intake], look for what the clock has to do, and see which sources are paused.
func grantIngress(ctx context.Context, tx pgx.Tx, role string) error {
	return grant(ctx, tx, role, "grant select, insert, update, delete on "+strings.Join(intake, ", ")+" to %s",
		"grant select, update (next_at) on due to %s", "grant select on pauses to %s")
}

// grantWorker lets role do what a worker does, and who operates pawl: read and write all rows but those of the audit
// trail, to which it only adds.
func grantWorker(ctx context.Context, tx pgx.Tx, role string) error {
	return grant(ctx, tx, role, "grant select, insert, update, delete on all tables in schema public to %s",
		"revoke update, delete on operator_actions from %s", "revoke insert, update, delete on "+versionTable+" from %s")
}

// grant gives role what the statements say, and takes what it had.
func grant(ctx context.Context, tx pgx.Tx, role string, statements ...string) error {
	statements = append([]string{
		"revoke all on all tables in schema public from %s", "grant usage on schema public to %s", "grant select on " + versionTable + " to %s",
	}, statements...)
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, fmt.Sprintf(sql, pgx.Identifier{role}.Sanitize())); err != nil {
			return err
		}
	}
	return nil
}
