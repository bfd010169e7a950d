package schematest

import (
	"bytes"
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
)

// Pooler starts a PgBouncer in transaction mode in front of the database at dsn, and returns the database's URL
// through it, without what pawl needs to hear of a pooler. It has two connections to the server, in the name of dsn's
// role, for whoever comes. It goes when the test ends. The test is skipped if PgBouncer is not installed.
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
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatalf("schematest: %v", err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, file) // it goes with the test's clean-up
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("schematest: start PgBouncer: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended stands in ProcessState
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for tick, deadline := time.NewTicker(20*time.Millisecond), time.After(20*time.Second); ; {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("schematest: PgBouncer ended (%s): %s", cmd.ProcessState, said.String())
		case <-deadline:
			t.Fatal("schematest: PgBouncer does not listen")
		}
	}
	through := *server
	through.Host = addr
	return through.String()
}
