package schema_test

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

var silent = slog.New(slog.DiscardHandler)

// emptyDatabase returns the URL of a database that was never migrated. It goes with the server.
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
			if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
				t.Errorf("Migrate() = %v", err)
			}
		})
	}
	wg.Wait()
	wantVersion(t, conn, schema.Latest())
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

// A migration that cannot get a lock steps back, so that nobody queues behind it for long, and
// comes again.
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

// signal is a log that tells when the first line is written.
type signal chan struct{}

func (s signal) Write(line []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(line), nil
}
