package schematest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// Pooler starts a PgBouncer in transaction mode for the database at dsn and returns its URL. The URL lacks the
// parameter that declares a pooler to pawl. All clients share two connections to the server, which use the role of dsn.
// It stops when the test ends. The test is skipped if PgBouncer is not installed.
func Pooler(t testing.TB, dsn string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("pgbouncer is not installed")
		}
	}
	server, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	password, _ := server.User.Password()
	database := strings.TrimPrefix(server.Path, "/")
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	config := fmt.Sprintf(`[databases]
%s = host=%s port=%s dbname=%[1]s user=%[4]s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[6]s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
`, database, server.Hostname(), server.Port(), server.User.Username(), password, port)
	if os.Geteuid() == 0 {
		config += "user = nobody\n"
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatalf("schematest: %v", err)
	}
	proc, err := keeper.Start(keeper.Command{Path: program, Args: []string{file}, Log: filepath.Join(dir, "log"),
		Signal: "KILL"}) // PgBouncer has nothing to write
	if err != nil {
		t.Fatalf("schematest: %v", err)
	}
	t.Cleanup(func() { _ = proc.Stop(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := proc.Ready(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		t.Fatalf("schematest: PgBouncer: %v", err)
	}
	through := *server
	through.Host = addr
	return through.String()
}
