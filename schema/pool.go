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

// Use says what a pool is for.
type Use int

// The uses.
const (
	// Asking is for what a person asks.
	Asking Use = iota
	// Handle is for a process that handles events: [Handling] is for its connections, too.
	Handle
)

// Bound bounds the connections of a pool: how long each may take to be made, and what [Bounds] says. Settings in the
// URL stay.
//
// A connection through a pooler (see [Pooled]) gets no settings: the pooler refuses unknown ones, and would hand
// known ones on to other clients. [SetRoles] gives them to its role.
func Bound(options *pgxpool.Config, use Use) {
	c := options.ConnConfig
	c.ConnectTimeout = 2 * time.Second
	c.DialFunc = dialer.DialContext
	// A server that has become read-only keeps its connections. Each is given up at its first refused write, so
	// that the next one goes where the URL, or the name in it, leads now.
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

// Pooled reports whether the URL says that it leads to a pooler: its default_query_exec_mode keeps no statement on a
// connection.
func Pooled(c *pgx.ConnConfig) bool { return c.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement }

// CheckSession reports a session that must not be used: one behind a pooler that its URL does not name, since others
// would find its statements there, and one without [Bounds].
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
			"PostgreSQL itself, as a superuser or with ADMIN OPTION on the role", conn.Config().User)
	}
	return nil
}

// PoolerAdvice says, behind a colon, what to do about a connection that a pooler refused because it was told settings;
// "" where that was not it.
func PoolerAdvice(err error) string {
	return advice(err, map[string]string{"08P01": poolerUntold}) // protocol_violation: "unsupported startup parameter"
}

const poolerUntold = "the URL leads to a pooler; add default_query_exec_mode=cache_describe to it"

// dialer notices that the server's host is gone as soon as the server would notice that ours is: see [Bounds].
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 2},
	Control:         boundUnanswered,
}
