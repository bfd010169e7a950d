package process

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// poolOn returns a pool with the settings of every process.
func poolOn(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	options, err := poolOptions("env:DSN", dsn, schema.Handle, EffectConns)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A server becomes read-only during a failover, and keeps its connections open.
func TestPool_ServerBecomesReadOnly_ConnectedAnew(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	pool := poolOn(t, dsn)
	const write = `update receipts set source = source`
	exec := func(sql string) error {
		_, err := pool.Exec(t.Context(), sql)
		return err
	}
	if err := exec(write); err != nil {
		t.Fatal(err)
	}
	if err := exec(`set default_transaction_read_only = on`); err != nil { // only this connection has the setting
		t.Fatal(err)
	}
	if err := exec(write); err == nil || !strings.Contains(err.Error(), "25006") {
		t.Fatalf("a write where it is read-only: %v", err)
	}
	if err := exec(write); err != nil {
		t.Errorf("the next write: %v, want it over a new connection", err)
	}
}

// A transaction that waited for a lock must see the rows that were committed meanwhile; otherwise two equal requests
// would add two rows to the audit trail.
func TestPool_OtherDefaultIsolation_ReadCommitted(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, level := range []string{"repeatable read", "serializable"} {
		if _, err := conn.Exec(t.Context(), `alter database `+conn.Config().Database+` set default_transaction_isolation = "`+level+`"`); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := poolOn(t, dsn).QueryRow(t.Context(), `show transaction_isolation`).Scan(&got); err != nil || got != "read committed" {
			t.Errorf("where %s is the default: %q (%v), want read committed", level, got, err)
		}
	}
}

// A process that handles events uses the same plans that CheckStatements checks. Connections through a pooler in
// transaction mode are not changed, because the pooler lends them to other clients.
func TestNode_PlansByKey(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	n := open(t, dsn, nil)
	pooler := poolOn(t, dsn+"&default_query_exec_mode=cache_describe")
	for setting, want := range map[string][2]string{
		"plan_cache_mode": {"force_generic_plan", "auto"}, "enable_hashjoin": {"off", "on"}, "enable_seqscan": {"off", "on"},
	} {
		for i, pool := range []*pgxpool.Pool{n.Pool, pooler} {
			var got string
			if err := pool.QueryRow(t.Context(), `show `+setting).Scan(&got); err != nil || got != want[i] {
				t.Errorf("%s: %q (%v), want %s", setting, got, err, want[i])
			}
		}
	}
}

func TestPool_MaxConns(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	if n := poolOn(t, dsn).Config().MaxConns; n != EffectConns {
		t.Errorf("a pool of %d connections, want %d", n, EffectConns)
	}
	if n := poolOn(t, dsn+"&pool_max_conns=8").Config().MaxConns; n != 8 {
		t.Errorf("a pool of %d connections, want the 8 in the DSN", n)
	}
}
