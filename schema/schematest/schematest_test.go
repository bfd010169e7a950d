package schematest_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestNew_IsMigratedAndPrivate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b := schematest.New(t), schematest.New(t)
	got, err := schema.Version(ctx, a)
	if err != nil || got != schema.Latest() {
		t.Errorf("Version() = %d, %v; want %d", got, err, schema.Latest())
	}
	if _, err := a.Exec(ctx, "CREATE TABLE only_here (id int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Exec(ctx, "SELECT * FROM only_here"); err == nil {
		t.Error("a table of one test's database exists in another")
	}
}

func TestNew_DatabaseGoesWithTheTest(t *testing.T) {
	var dsnName string
	t.Run("inner", func(t *testing.T) {
		pool := schematest.New(t)
		if err := pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&dsnName); err != nil {
			t.Fatal(err)
		}
	})
	var exists bool
	err := schematest.New(t).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", dsnName).Scan(&exists)
	if err != nil || exists {
		t.Errorf("database %s exists after its test = %v, %v; want false", dsnName, exists, err)
	}
}

// A pool survives an outage of the server: the port and the data stay the same, and the user of the pool does not
// restart.
func TestServer_PauseAndResume(t *testing.T) {
	pool := schematest.New(t)
	server := schematest.Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(ctx, "CREATE TABLE kept (id int)"); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(ctx); err == nil {
		t.Error("Ping() succeeds while the server is paused")
	}
	if err := server.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "SELECT * FROM kept"); err != nil {
		t.Errorf("after Resume: %v", err)
	}
}
