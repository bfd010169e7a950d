// Package schematest gives each test a migrated database of its own on a real PostgreSQL.
//
//	func TestMain(m *testing.M) { schematest.Main(m) }
//
//	func TestInsert(t *testing.T) {
//		t.Parallel()
//		pool := schematest.New(t)
//		…
//	}
//
// The server is started when the first test of the process asks for it and ends with the process.
// A database is a copy of a migrated template, which costs some 30 ms.
package schematest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
)

// template is migrated once and never connected to afterwards: a database with connections
// cannot be copied.
const template = "pawl_template"

// Console is the role of a console in each database of the server, and its password.
const Console = "pawl_console"

// shared is the server of this process.
var shared struct {
	once   sync.Once
	server *localpg.Server
	err    error
	count  atomic.Int64
}

// Main runs the tests of m and ends the test process. It first calls before and then stops the server. A process that
// ends otherwise takes the server with it some moments later.
func Main(m *testing.M, before ...func() error) {
	os.Exit(Run(m, before...)) //nolint:forbidigo // called as the last line of TestMain
}

// AtOnce has n parallel tests run at once, unless -parallel says how many. It is for tests that mostly wait, whatever
// the number of CPUs. TestMain calls it first.
func AtOnce(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// Run is [Main] for a TestMain that has something left to do: it returns the exit code.
func Run(m *testing.M, before ...func() error) int {
	code := m.Run()
	for _, stop := range append(before, stop) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "schematest:", err)
			code = 1
		}
	}
	return code
}

func stop() error {
	if shared.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return shared.server.Stop(ctx)
}

// Server returns the server that all tests of this process share, for tests that [localpg.Server.Pause]
// and [localpg.Server.Resume] it. Such a test must not be parallel to others.
func Server(t testing.TB) *localpg.Server {
	t.Helper()
	shared.once.Do(func() { shared.err = start(context.Background()) })
	if shared.err != nil {
		t.Fatalf("schematest: %v", shared.err)
	}
	return shared.server
}

func start(ctx context.Context) error {
	server, err := localpg.Start(ctx, localpg.Options{Ephemeral: true})
	if err != nil {
		return err
	}
	shared.server = server
	if err := server.EnsureDatabase(ctx, template); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if err := schema.Migrate(ctx, server.DSN(template), log); err != nil {
		return err
	}
	if err := admin("create role " + Console + " login password '" + Console + "'"); err != nil {
		return err
	}
	return schema.SetRoles(ctx, server.DSN(template), schema.Roles{Console: []string{Console}}, log)
}

// admin runs one statement on a connection of its own: a pooled one would not survive a test
// that pauses the server.
func admin(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, shared.server.DSN("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// New returns a pool on a fresh migrated database, whose connections are told what those of a process are told that
// handles events. Pool and database go when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	options, err := pgxpool.ParseConfig(NewDSN(t))
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	schema.Bound(options, schema.Handle)
	pool, err := pgxpool.NewWithConfig(context.Background(), options)
	if err != nil {
		t.Fatalf("schematest: connect: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// AsConsole returns a pool on the database of another pool, whose sessions are those of a console's role. It goes when
// the test ends, which fails if that role may not do something.
func AsConsole(t testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	options := pool.Config()
	options.ConnConfig.User, options.ConnConfig.Password, options.ConnConfig.Tracer = Console, Console, refusals{t}
	as, err := pgxpool.NewWithConfig(context.Background(), options)
	if err != nil {
		t.Fatalf("schematest: connect as a console: %v", err)
	}
	t.Cleanup(as.Close)
	return as
}

// refusals fails a test whose role lacks a right.
type refusals struct{ t testing.TB }

type statement struct{}

func (refusals) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, statement{}, q.SQL)
}

func (r refusals) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	if refused, is := errors.AsType[*pgconn.PgError](q.Err); is && refused.Code == "42501" { // insufficient_privilege
		r.t.Errorf("the console's role: %v: %s", q.Err, ctx.Value(statement{}))
	}
}

// NewDSN returns the URL of a fresh migrated database, for tests that hand it to another
// process. The database goes when the test ends, with its connections.
func NewDSN(t testing.TB) string {
	t.Helper()
	server := Server(t)
	name := "test_" + strconv.FormatInt(shared.count.Add(1), 10)
	quoted := pgx.Identifier{name}.Sanitize()
	// Its two checkpoints cost less, with fsync off, than a write-ahead log of each page.
	if err := admin("CREATE DATABASE " + quoted + " TEMPLATE " + template + " STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("schematest: create a database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE: a pool of the test that is not closed yet must not keep the database.
		if err := admin("DROP DATABASE " + quoted + " WITH (FORCE)"); err != nil {
			t.Errorf("schematest: drop %s: %v", name, err)
		}
	})
	return server.DSN(name)
}
