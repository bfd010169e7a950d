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

// Use is the purpose of a pool of connections.
type Use int

// The uses of a pool.
const (
	// Asking is for requests that a person waits for.
	Asking Use = iota
	// Handle is for processes that handle events. Their connections also get [Handling].
	Handle
)

// Bound sets the connect timeout of a pool, and the settings in [Bounds] for its connections. Settings in the URL take
// precedence.
//
// If the connections go through a pooler (see [Pooled]), Bound sets nothing: the pooler rejects unknown settings, and
// would apply known ones to other clients as well. In this case [SetRoles] stores the settings with the role.
func Bound(options *pgxpool.Config, use Use) {
	c := options.ConnConfig
	c.ConnectTimeout = 2 * time.Second
	c.DialFunc = dialer.DialContext
	// A server that has become read-only keeps its connections open. pgx closes a connection at its first rejected
	// write, so that the next connection is made to the server that the URL leads to by then.
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

// Pooled reports whether the URL declares a pooler, by a default_query_exec_mode that does not cache statements on a
// connection.
func Pooled(c *pgx.ConnConfig) bool { return c.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement }

// CheckSession returns an error if a session must not be used. There are two cases. The session goes through a pooler
// that the URL does not declare: clients would then use each other's prepared statements. Or the session lacks the
// settings in [Bounds].
func CheckSession(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var lockTimeout string
	if err := conn.QueryRow(ctx, `select pg_backend_pid(), current_setting('lock_timeout')`).Scan(&pid,
		&lockTimeout); err != nil {
		return fmt.Errorf("check session: %w", err)
	}
	switch pooled := Pooled(conn.Config()); {
	case !pooled && pid != conn.PgConn().PID():
		return errors.New(poolerUnnamed)
	case pooled && lockTimeout == "0":
		return fmt.Errorf("the pooler's sessions have no timeouts: run `pawl migrate --worker-role %s` (or --ingress-role, or --console-role) over a URL that leads to "+
			"PostgreSQL itself, with a role that has ADMIN OPTION on that role", conn.Config().User)
	}
	return nil
}

// PoolerAdvice returns advice, after a colon, if err shows that a pooler rejected the session settings. It returns ""
// for other errors.
func PoolerAdvice(err error) string {
	return advice(err, map[string]string{"08P01": poolerUnnamed}) // protocol_violation: "unsupported startup parameter"
}

const poolerUnnamed = "the URL leads to a pooler; add default_query_exec_mode=cache_describe to it"

// dialer notices that the server is gone as fast as the server notices that a client is gone; see [Bounds].
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 2},
	Control:         boundUnanswered,
}
