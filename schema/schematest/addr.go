package schematest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// givenAddrs has what FreeAddr has returned.
var givenAddrs sync.Map

// FreeAddr returns an address of this machine that nobody listens on now, below the system's range of ports for
// connections, so that nothing else gets it meanwhile. A process gets none twice.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000)))
		if _, taken := givenAddrs.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("schematest: found no free port")
	return ""
}
