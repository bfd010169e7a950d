package schema_test

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// told is the URL parameter that declares a pooler.
const told = "&default_query_exec_mode=cache_describe"

func boundPool(t *testing.T, dsn string, use schema.Use) *pgxpool.Pool {
	t.Helper()
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	schema.Bound(options, use)
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func checkSession(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	return schema.CheckSession(t.Context(), conn.Conn())
}

// A pooler rejects a connection with unknown settings. The error names the parameter that the URL must contain.
func TestPooler_UntoldURL_SaysWhatToAdd(t *testing.T) {
	t.Parallel()
	pool := boundPool(t, schematest.Pooler(t, schematest.NewDSN(t)), schema.Handle)
	err := pool.Ping(t.Context())
	if err == nil || !strings.Contains(schema.PoolerAdvice(err), "add default_query_exec_mode=cache_describe") {
		t.Errorf("got %v, advice %q", err, schema.PoolerAdvice(err))
	}
}

// PostgreSQL itself is not a pooler, so a connection that failed for another reason gets no advice about poolers.
func TestPooler_None_NothingSaid(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	if err := checkSession(t, boundPool(t, dsn, schema.Handle)); err != nil {
		t.Errorf("got %v", err)
	}
	if err := boundPool(t, strings.Replace(dsn, "/test_", "/nowhere_", 1), schema.Handle).Ping(t.Context()); err == nil || schema.PoolerAdvice(err) != "" {
		t.Errorf("got %v, advice %q", err, schema.PoolerAdvice(err))
	}
}

// Statements through a pooler leave no state in connections that other clients use next. The role has the time limits
// as its settings, and a process without these settings prints how to set them.
func TestPooler_TransactionMode_NothingLeftBehind(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	bare := maps.Clone(settings(t, connect(t, dsn)))
	through := schematest.Pooler(t, dsn) + told
	pool := boundPool(t, through, schema.Handle)
	if err := checkSession(t, pool); err == nil || !strings.Contains(err.Error(), "pawl migrate --worker-role pawl") {
		t.Errorf("a pooler with sessions without limits: %v", err)
	}
	use(t, pool)
	stranger := connect(t, through)
	for name, was := range bare {
		if got := settings(t, stranger)[name]; got != was {
			t.Errorf("%s is %q on a connection that others get, and was %q", name, got, was)
		}
	}

	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Worker: []string{"pawl"}}, quiet); err != nil {
		t.Fatal(err)
	}
	pool = boundPool(t, schematest.Pooler(t, dsn)+told, schema.Handle)
	if err := checkSession(t, pool); err != nil {
		t.Errorf("a pooler with sessions with limits: %v", err)
	}
	use(t, pool)
	for _, list := range []schema.Settings{schema.Bounds, schema.Handling} {
		for name, want := range list {
			if got := settings(t, pool)[name]; got != want {
				t.Errorf("%s is %q, want %q from the role", name, got, want)
			}
		}
	}
}

// use runs the kinds of statements that pawl uses: with arguments, batches and transactions, concurrently on two
// connections.
func use(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `create table if not exists used (n int)`); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for n := range 20 {
		group.Go(func() {
			ctx := t.Context()
			var got int
			if err := pool.QueryRow(ctx, `select $1::int`, n).Scan(&got); err != nil || got != n {
				t.Errorf("got %d, %v; want %d", got, err, n)
			}
			batch := &pgx.Batch{}
			batch.Queue(`select $1::text`, "a")
			batch.Queue(`select count(*) from receipts where id = any($1::uuid[])`, [][16]byte{})
			if err := pool.SendBatch(ctx, batch).Close(); err != nil {
				t.Error(err)
			}
			if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `insert into used values ($1)`, n)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
