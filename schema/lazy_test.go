package schema_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// An asynchronous commit applies only to one transaction: the next commit of the connection waits for the disk again.
func TestLazy_ForOneTransaction(t *testing.T) {
	t.Parallel()
	conn, err := schematest.New(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	setting := func(db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) (is string) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `show synchronous_commit`).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if _, err := conn.Exec(t.Context(), `set synchronous_commit = 'on'`); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `with `+schema.Lazy+` insert into transmissions (provider, id, body_hash) select 'paypal', 't-1', '\x01' from lazy`)
		if is := setting(tx); is != "off" {
			t.Errorf("within its transaction: %s, want off", is)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if is := setting(conn); is != "on" {
		t.Errorf("after it: %s, want on", is)
	}
}
