package schema

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Use is the purpose of a pool.
type Use int

// The uses.
const (
	// Asking is for requests of people.
	Asking Use = iota
	// Handle is for processes that handle events. Their connections also get [Handling].
	Handle
)

// Bound sets how long connecting may take, and the settings in [Bounds], for the connections of a pool. Settings in the
// URL take precedence.
//
// A connection through a pooler (see [Pooled]) gets no settings: the pooler rejects unknown ones, and would pass known
// ones on to other clients. [SetRoles] gives them to its role.
func Bound(options *pgxpool.Config, use Use) {
	c := options.ConnConfig
	c.ConnectTimeout = 2 * time.Second
	c.DialFunc = dialer.DialContext
	// A server that has become read-only keeps its connections. Each connection is closed at its first rejected write,
	// so that the next one goes to the server to which the URL, or the name in it, now leads.
	fatal := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, e *pgconn.PgError) bool {
		return e.Code != "25006" && fatal(conn, e) // read_only_sql_transaction
	}
	switch {
	case Pooled(c):
	case use == Handle:
		Bounds.and(Handling).addTo(c.RuntimeParams)
	default:
		Bounds.and(patient).addTo(c.RuntimeParams)
	}
}

// Pooled reports whether the URL leads to a pooler: its default_query_exec_mode then caches no statement on a
// connection.
func Pooled(c *pgx.ConnConfig) bool { return c.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement }

// CheckSession returns an error for a session that must not be used: behind a pooler that its URL does not declare,
// where other clients would find its prepared statements, or without [Bounds].
func CheckSession(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var lockTimeout string
	if err := conn.QueryRow(ctx, `select pg_backend_pid(), current_setting('lock_timeout')`).Scan(&pid,
		&lockTimeout); err != nil {
		return fmt.Errorf("check session: %w", err)
	}
	switch pooled := Pooled(conn.Config()); {
	case !pooled && pid != conn.PgConn().PID():
		return errors.New(poolerUntold)
	case pooled && lockTimeout == "0":
		return fmt.Errorf("the pooler's sessions have no time-outs: run `pawl migrate --worker-role %s` (--ingress-role or --console-role for one of theirs) over a URL that leads to "+
			"PostgreSQL itself, with a role that has ADMIN OPTION on it", conn.Config().User)
	}
	return nil
}

// PoolerAdvice returns advice, after a colon, if a pooler rejected the settings of a connection. It returns "" for
// other errors.
func PoolerAdvice(err error) string {
	return advice(err, map[string]string{"08P01": poolerUntold}) // protocol_violation: "unsupported startup parameter"
}

const poolerUntold = "the URL leads to a pooler; add default_query_exec_mode=cache_describe to it"

// dialer detects a lost server host as fast as the server detects a lost client host: see [Bounds].
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 2},
	Control:         boundUnanswered,
}
