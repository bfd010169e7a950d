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
// The server is started for the first test that needs it, and stops with the process. A database is a copy of a
// migrated template, which takes about 30 ms.
package schematest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
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

// template is migrated once. Nothing connects to it afterwards, because a database with connections cannot be copied.
const template = "pawl_template"

// The roles of pawl's processes, which exist in each database of the server. The password of a role is its name.
const (
	Ingress = "pawl_ingress"
	Worker  = "pawl_worker"
	Console = "pawl_console"
	Reader  = "pawl_reader"
)

// shared is the server of this process.
var shared struct {
	once   sync.Once
	server *localpg.Server
	err    error
	count  atomic.Int64
}

// Main calls before, runs the tests of m, stops the server and ends the process. If the process ends in another way,
// the server stops shortly afterwards.
func Main(m *testing.M, before ...func() error) {
	os.Exit(Run(m, before...)) //nolint:forbidigo // called as the last line of TestMain
}

// AtOnce lets n parallel tests run at once, unless -parallel is set. It is for packages with tests that mostly wait, so
// that the number of CPUs does not matter. Call it at the start of TestMain.
func AtOnce(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// Run is like [Main], for a TestMain with further work. It returns the exit code.
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

// Server returns the server that all tests of this process share. It is for tests that call [localpg.Server.Pause] and
// [localpg.Server.Resume]. Such a test must not run in parallel with others.
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
	for _, role := range []string{Ingress, Worker, Console, Reader} {
		if err := admin("create role " + role + " login password '" + role + "'"); err != nil {
			return err
		}
	}
	return schema.SetRoles(ctx, server.DSN(template), schema.Roles{Ingress: []string{Ingress}, Worker: []string{Worker},
		Console: []string{Console}, Reader: []string{Reader}}, log)
}

// admin executes one statement on a new connection. A pooled connection would break in a test that pauses the server.
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

// New returns a pool for a new migrated database, with the session settings of a process that handles events. Pool and
// database are removed when the test ends.
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

// As returns a pool for the database of another pool, with a role such as [Console] and the session settings of this
// role. The pool is closed when the test ends. If a statement through the pool fails because the role lacks a
// privilege, the test fails.
func As(t testing.TB, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	options := pool.Config()
	options.ConnConfig.User, options.ConnConfig.Password, options.ConnConfig.Tracer = role, role, refusals{t, role}
	as, err := pgxpool.NewWithConfig(context.Background(), options)
	if err != nil {
		t.Fatalf("schematest: connect as %s: %v", role, err)
	}
	t.Cleanup(as.Close)
	return as
}

// refusals traces statements and fails the test if Postgres refuses one for a missing privilege.
type refusals struct {
	t    testing.TB
	role string
}

type statement struct{}

func (refusals) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, statement{}, q.SQL)
}

func (r refusals) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	if refused, is := errors.AsType[*pgconn.PgError](q.Err); is && refused.Code == "42501" { // insufficient_privilege
		r.t.Errorf("%s: %v: %s", r.role, q.Err, ctx.Value(statement{}))
	}
}

// DSNAs returns the URL dsn with the user and the password of a role, for example [Worker].
func DSNAs(t testing.TB, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	u.User = url.UserPassword(role, role)
	return u.String()
}

// NewDSN returns the URL of a new migrated database, for tests that pass it to another process. The database is dropped
// when the test ends, and open connections are closed.
func NewDSN(t testing.TB) string {
	t.Helper()
	server := Server(t)
	name := "test_" + strconv.FormatInt(shared.count.Add(1), 10)
	quoted := pgx.Identifier{name}.Sanitize()
	// Without fsync, the two checkpoints of FILE_COPY are cheaper than a write-ahead log record for each page.
	if err := admin("CREATE DATABASE " + quoted + " TEMPLATE " + template + " STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("schematest: create a database: %v", err)
	}
	// A copy of a database has the privileges on tables, but not the privileges on the database itself.
	if err := admin("REVOKE TEMPORARY ON DATABASE " + quoted + " FROM PUBLIC; GRANT TEMPORARY ON DATABASE " + quoted +
		" TO " + Ingress + ", " + Worker); err != nil {
		t.Fatalf("schematest: close a database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE closes connections that the test has left open.
		if err := admin("DROP DATABASE " + quoted + " WITH (FORCE)"); err != nil {
			t.Errorf("schematest: drop %s: %v", name, err)
		}
	})
	return server.DSN(name)
}
