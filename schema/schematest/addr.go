package schematest

import (
	"net"
	"strconv"
	"testing"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// FreeAddr returns a free address of this machine. It never returns an address twice in one process.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := keeper.FreePort()
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
