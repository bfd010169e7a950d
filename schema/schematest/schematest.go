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

// template is migrated once and never connected to afterwards: a database with connections
// cannot be copied.
const template = "pawl_template"

// The roles of pawl's processes in each database of the server. The password of each is its name.
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

// Main runs the tests of m and ends the test process. It first calls before and then stops the server. A process that
// ends otherwise takes the server with it some moments later.
func Main(m *testing.M, before ...func() error) {
	os.Exit(Run(m, before...)) //nolint:forbidigo // called as the last line of TestMain
}

// AtOnce lets n parallel tests run at once, unless -parallel is set. It is for tests that mostly wait, on any number of
// CPUs. TestMain calls it first.
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
	for _, role := range []string{Ingress, Worker, Console, Reader} {
		if err := admin("create role " + role + " login password '" + role + "'"); err != nil {
			return err
		}
	}
	return schema.SetRoles(ctx, server.DSN(template), schema.Roles{Ingress: []string{Ingress}, Worker: []string{Worker},
		Console: []string{Console}, Reader: []string{Reader}}, log)
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

// New returns a pool on a fresh migrated database, with the session settings of a process that handles events. Pool and
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

// As returns a pool on the database of another pool with a role's sessions, for example [Console]'s. The test closes it
// at its end. The test fails if the role lacks a privilege.
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

// refusals fails a test if its role lacks a privilege.
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
	// A copy has the privileges on tables, and not those on the database.
	if err := admin("REVOKE TEMPORARY ON DATABASE " + quoted + " FROM PUBLIC; GRANT TEMPORARY ON DATABASE " + quoted +
		" TO " + Ingress + ", " + Worker); err != nil {
		t.Fatalf("schematest: close a database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE: a pool of the test that is not closed yet must not keep the database.
		if err := admin("DROP DATABASE " + quoted + " WITH (FORCE)"); err != nil {
			t.Errorf("schematest: drop %s: %v", name, err)
		}
	})
	return server.DSN(name)
}
