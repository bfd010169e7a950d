package process

import (
	"context"
	"net"
	"runtime"
)

// leaveCore makes Go use one core less if the database is on this machine. All callers of a group commit wait for one
// process of Postgres, which would wait for a core while requests occupy every core: on two cores that costs a tenth of
// the events, and as much of the time of each answer. A GOMAXPROCS in the environment takes precedence. leaveCore
// reports whether it has left a core.
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
		n.log.InfoContext(ctx, "the database is on this machine: a core is left to it (GOMAXPROCS decides where it is set)", "cores", cores-1)
	}
	return beside
}

const fromPortSQL = `select coalesce(inet_client_port(), 0)` // null where it comes through a socket of that machine

// besideDatabase reports whether the database is on this machine: the connection has the same address at both ends, or
// is a socket, and the server itself has this connection. The other end may be a tunnel or a proxy (for example Cloud
// SQL's), which connects to the server from another port or through a socket there. A proxy with sockets on both sides
// cannot be detected.
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
