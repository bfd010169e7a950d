package process

import (
	"context"
	"net"
	"runtime"
)

// leaveCore makes Go use one core less if the database is on this machine. All callers of a group commit wait for one
// process of Postgres. Postgres would then wait for a core while requests occupy every core. On two cores, the free
// core costs a tenth of the throughput, and makes each answer a tenth slower. leaveCore does nothing if GOMAXPROCS is
// set in the environment. It reports whether it left a core free.
func (n *Node) leaveCore(ctx context.Context, env func(string) (string, bool)) (left bool) {
	cores := runtime.GOMAXPROCS(0)
	if cores == 1 || isSet(env, "GOMAXPROCS") {
		return false
	}
	beside, err := n.besideDatabase(ctx)
	if err != nil {
		n.log.DebugContext(ctx, "the location of the database is unknown", "error", err)
	}
	if beside {
		runtime.GOMAXPROCS(cores - 1)
		n.log.InfoContext(ctx, "the database is on this machine: pawl leaves one core to it, unless GOMAXPROCS is set", "cores", cores-1)
	}
	return beside
}

const fromPortSQL = `select coalesce(inet_client_port(), 0)` // 0 if the server sees a connection through a local socket

// besideDatabase reports whether the database is on this machine. The database is on this machine if the connection is
// a socket or has the same address at both ends, and if the server reports the same connection. Otherwise the other end
// is a tunnel or a proxy (for example Cloud SQL's), which connects to the server from another port or through another
// socket. A proxy with sockets on both sides cannot be detected.
func (n *Node) besideDatabase(ctx context.Context) (bool, error) {
	conn, err := n.Pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	socket, port := conn.Conn().PgConn().Conn(), 0
	if ours, ok := socket.LocalAddr().(*net.TCPAddr); ok {
		theirs, ok := socket.RemoteAddr().(*net.TCPAddr)
		if !ok || !ours.IP.Equal(theirs.IP) {
			return false, nil
		}
		port = ours.Port
	}
	var seen int
	err = conn.QueryRow(ctx, fromPortSQL).Scan(&seen)
	return err == nil && seen == port, err
}
