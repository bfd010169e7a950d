package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// intake are the tables that an ingress reads and writes: what comes in, and when it was handed on.
var intake = []string{
	"receipts", "receipt_bodies", "redeliveries", "transmissions", "handouts", "rejections", "rejection_counts", "secret_uses", "runs",
}

// Grant lets roles do what an ingress and what a worker does in the database at dsn, and nothing else there: an ingress,
// which is open to the network, what is in [intake]; a worker, and who operates pawl, all rows but those of the audit trail,
// to which they only add. Neither changes the schema. It is for after each [Migrate], as a new table is nobody's, and may
// be called again.
func Grant(ctx context.Context, dsn string, ingress, worker []string) error {
	if len(ingress)+len(worker) == 0 {
		return nil
	}
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, migratorConfig(options.ConnConfig))
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, rolesLock); err != nil {
			return err
		}
		for _, role := range ingress {
			if err := grant(ctx, tx, role, "grant select, insert, update, delete on "+strings.Join(intake, ", ")+" to %s"); err != nil {
				return err
			}
		}
		for _, role := range worker {
			if err := grant(ctx, tx, role, "grant select, insert, update, delete on all tables in schema public to %s",
				"revoke update, delete on operator_actions from %s", "revoke insert, update, delete on "+versionTable+" from %s"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}

// grant gives role what the statements say, and takes what it had.
func grant(ctx context.Context, tx pgx.Tx, role string, statements ...string) error {
	statements = append([]string{
		"revoke all on all tables in schema public from %s", "grant usage on schema public to %s", "grant select on " + versionTable + " to %s",
	}, statements...)
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, fmt.Sprintf(sql, pgx.Identifier{role}.Sanitize())); err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
	}
	return nil
}
