package process

import (
	"context"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/config"
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

// limitMemory sets a memory limit in Go below the memory limit of the container. The garbage collector then works
// harder before the kernel would kill the process. It does nothing if GOMEMLIMIT is set in the environment.
func limitMemory(env func(string) (string, bool)) {
	if limit := memoryLimit("/sys/fs/cgroup"); limit > 0 && !isSet(env, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit returns the limit for Go, or 0 if the control group at root has no memory limit. The result is nine
// tenths of the control group's limit, minus the request bodies, which are stored outside of Go's memory. It is at
// least half of the control group's limit.
func memoryLimit(root string) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // the files of cgroup version 2 and 1
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit <= 0 || limit > math.MaxInt64/4 { // "max", or the number that version 1 uses for it
			return 0
		}
		return max(limit/10*9-config.BodiesAtOnce, limit/2)
	}
	return 0
}

// headroom is allocated memory that is never used, so the kernel never provides pages for it. It makes Go's garbage
// collector assume a larger heap and therefore run less often. An ingress has about 10 MiB of live data. Without the
// headroom, the collector ran after each further 10 MiB, many times a second under load, and used a sixth of the CPU
// time.
//
// The real memory grows by at most the size of the headroom. GOGC would multiply even a large heap, such as the heap of
// a worker with thousands of open runs. GOMEMLIMIT would make the collector run all the time once the limit is reached.
type headroom []byte

// newHeadroom returns nil if the environment configures the collector itself.
func newHeadroom(env func(string) (string, bool)) headroom {
	if isSet(env, "GOGC") || isSet(env, "GOMEMLIMIT") {
		return nil
	}
	return make(headroom, 24<<20)
}

// isSet reports whether the environment sets name.
func isSet(env func(string) (string, bool), name string) bool {
	value, ok := env(name)
	return ok && value != ""
}
