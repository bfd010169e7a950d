package schema_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) {
	if victim() {
		return
	}
	schematest.Main(m)
}

var silent = slog.New(slog.DiscardHandler)

// emptyDatabase returns the URL of a database without any migration. It is dropped with its server.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(t.Name() + "_" + rand.Text()[:6])
	if err := schematest.Server(t).EnsureDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return schematest.Server(t).DSN(name)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func wantVersion(t *testing.T, conn *pgx.Conn, want int) {
	t.Helper()
	if got, err := schema.Version(t.Context(), conn); err != nil || got != want {
		t.Errorf("Version() = %d, %v; want %d", got, err, want)
	}
}

func TestMigrate_ManyAtOnce(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	wantVersion(t, conn, 0)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			// Pool parameters in the URL are not sent to the server.
			if err := schema.Migrate(t.Context(), dsn+"&pool_max_conns=8", silent); err != nil {
				t.Errorf("Migrate() = %v", err)
			}
		})
	}
	wg.Wait()
	wantVersion(t, conn, schema.Latest())
}

// In PostgreSQL 15 and later, only the owner can create tables in public.
func TestMigrate_RoleMayNotCreate_SaysWhatToGrant(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	role := "guest_" + strings.ToLower(rand.Text()[:6])
	conn := connect(t, dsn)
	for _, sql := range []string{`create role ` + role + ` login password 'guest'`, `revoke create on schema public from public`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `drop role `+role) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "guest")
	if err := schema.Migrate(t.Context(), u.String(), silent); err == nil || !strings.Contains(err.Error(), "grant the role that migrates CREATE on schema public") {
		t.Errorf("Migrate() = %v, want what to grant", err)
	}
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	// A command that only reads creates nothing.
	if _, err := schema.Version(t.Context(), connect(t, u.String())); err == nil || strings.Contains(err.Error(), "CREATE") {
		t.Errorf("Version() = %v, want that it is denied, and no advice about migrations", err)
	}
}

func TestMigrate_NewerDatabase_IsLeftAlone(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn := connect(t, dsn)
	newer := schema.Latest() + 1
	if _, err := conn.Exec(t.Context(), "UPDATE schema_version SET version = $1", newer); err != nil {
		t.Fatal(err)
	}
	err := schema.Migrate(t.Context(), dsn, silent)
	if err == nil || !strings.Contains(err.Error(), "use the newer pawl") {
		t.Errorf("Migrate() = %v; want that the database is newer", err)
	}
	wantVersion(t, conn, newer)
}

// A migration that cannot get a lock gives up, so that no session waits long behind it, and then tries again.
func TestMigrate_LockedTable_StepsBackAndComesAgain(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn := connect(t, dsn)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	steppedBack := make(signal, 1)
	migrated := make(chan error, 1)
	go func() { migrated <- schema.Migrate(t.Context(), dsn, slog.New(slog.NewTextHandler(steppedBack, nil))) }()
	select {
	case <-steppedBack:
	case err := <-migrated:
		t.Fatalf("Migrate() = %v while the table is locked; want it to wait", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the migration still queues for its lock")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("Migrate() = %v after the lock was free", err)
	}
}

// signal is a log handler that reports when the first line is written.
type signal chan struct{}

func (s signal) Write(line []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(line), nil
}

// Unique keys must not depend on the collation of a language, which an upgrade of the operating system can change.
func TestMigrate_KeysCompareBytes(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', i.indexrelid::regclass, a.attname, c.collname)
		  from pg_index i
		  cross join unnest(i.indkey::int[], i.indcollation::oid[]) as k(attribute, compared)
		  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attribute
		  join pg_collation c on c.oid = k.compared
		 where i.indexrelid in ('receipts_event'::regclass, 'effects_pkey'::regclass, 'effect_attempts_key'::regclass)
		 order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	// These are all unique keys that contain text other than a mode, which is either live or test.
	want := []string{"effect_attempts_key key C", "effects_pkey key C",
		"receipts_event account C", "receipts_event event_id C", "receipts_event mode default", "receipts_event provider C"}
	if !slices.Equal(got, want) {
		t.Errorf("collations:\ngot  %q\nwant %q", got, want)
	}
}
