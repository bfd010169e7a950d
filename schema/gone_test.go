package schema_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
)

// The states of a transaction in which its process disappears.
const (
	// betweenStatements: the server waits for the next statement, and the transaction is idle.
	betweenStatements = "between two statements"
	// inPipeline: the server waits for the rest of a pipeline. It does not count this as idle.
	inPipeline = "in a pipeline"
	// inStatement: the server executes a statement.
	inStatement = "in a statement"
)

// victim is the process that will disappear. An environment variable names its use; it locks a row with a pool for
// this use, and blocks. In the process of the tests themselves, it returns false.
func victim() bool {
	dsn := os.Getenv("SCHEMA_VICTIM")
	if dsn == "" {
		return false
	}
	use := schema.Handle
	if os.Getenv("SCHEMA_VICTIM_USE") == "asking" {
		use = schema.Asking
	}
	if err := lockAndStay(dsn, use, os.Getenv("SCHEMA_VICTIM_POINT"), os.Getenv("SCHEMA_VICTIM_ROW")); err != nil {
		fmt.Println(err)
	}
	return true
}

func lockAndStay(dsn string, use schema.Use, point, row string) error {
	ctx := context.Background()
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	schema.Bound(options, use)
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	const lock = `select from held where name = $1 for update`
	if point == inPipeline {
		pipeline := conn.Conn().PgConn().StartPipeline(ctx)
		pipeline.SendQueryParams(lock, [][]byte{[]byte(row)}, nil, nil, nil)
		pipeline.SendFlushRequest() // without the end of the pipeline, because the server would commit there
		if err := pipeline.Flush(); err != nil {
			return err
		}
		results, err := pipeline.GetResults()
		if err != nil {
			return err
		}
		reader, ok := results.(*pgconn.ResultReader)
		if !ok {
			return fmt.Errorf("the pipeline answered %T", results)
		}
		if read := reader.Read(); read.Err != nil || len(read.Rows) != 1 {
			return fmt.Errorf("locked %d rows: %w", len(read.Rows), read.Err)
		}
	} else if _, err := conn.Exec(ctx, `begin`); err != nil {
		return err
	} else if _, err := conn.Exec(ctx, lock, row); err != nil {
		return err
	}
	fmt.Println("locked")
	if point == inStatement {
		_, err := conn.Exec(ctx, `select pg_sleep(60)`)
		return err
	}
	select {} // block until the process is killed
}

// A process disappears while it holds a lock: either the process is stopped, or the network cable of its host is
// pulled, so that its kernel does not respond either. The server releases the locks within ten seconds, in any state
// of the transaction.
//
// The test does not cover two cases. If a process is stopped within a pipeline, its kernel still responds; the time
// between two writes of one pipeline is only microseconds. A statement that a person runs ends when it is done.
func TestBound_ProcessVanishes_ItsLocksAreFree(t *testing.T) {
	t.Parallel()
	elsewhere := newHost(t)
	server := startFor(t, elsewhere)
	pool, err := pgxpool.New(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), `create table held (name text primary key)`); err != nil {
		t.Fatal(err)
	}
	stopped, cutOff := []*exec.Cmd{}, 0
	var rows []string
	for _, c := range []struct {
		how, use, point string
	}{
		{"stopped", "handling", betweenStatements},
		{"stopped", "handling", inStatement},
		{"stopped", "asking", betweenStatements},
		{"cut off", "handling", betweenStatements},
		{"cut off", "handling", inPipeline},
		{"cut off", "handling", inStatement},
		{"cut off", "asking", betweenStatements},
		{"cut off", "asking", inPipeline},
	} {
		row := c.how + ", " + c.use + ", " + c.point
		rows = append(rows, row)
		if _, err := pool.Exec(t.Context(), `insert into held values ($1)`, row); err != nil {
			t.Fatal(err)
		}
		command, dsn := []string{os.Args[0]}, server.DSN("postgres")
		if c.how == "cut off" {
			command, dsn = elsewhere.command(os.Args[0]), strings.Replace(dsn, "127.0.0.1", elsewhere.gateway, 1)
			cutOff++
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "SCHEMA_VICTIM="+dsn, "SCHEMA_VICTIM_USE="+c.use, "SCHEMA_VICTIM_POINT="+c.point, "SCHEMA_VICTIM_ROW="+row)
		awaitLocked(t, cmd, row)
		if c.how == "stopped" {
			stopped = append(stopped, cmd)
		}
	}
	if cutOff == 0 || len(stopped) == 0 {
		t.Fatal("nothing vanishes")
	}
	for _, row := range rows {
		if isFree(t, pool, row) {
			t.Errorf("%s: the row is free before anybody has vanished", row)
		}
	}
	elsewhere.cut(t)
	for _, cmd := range stopped {
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	vanished := time.Now()
	for tick := time.NewTicker(50 * time.Millisecond); len(rows) > 0; <-tick.C {
		var held []string
		for _, row := range rows {
			if !isFree(t, pool, row) {
				held = append(held, row)
				continue
			}
			t.Logf("%s: free after %s", row, time.Since(vanished).Round(100*time.Millisecond))
		}
		if rows = held; time.Since(vanished) > 10*time.Second {
			break
		}
	}
	for _, row := range rows {
		t.Errorf("%s: still locked after ten seconds", row)
	}
}

// awaitLocked starts a victim and returns when the victim reports its lock. The victim is killed when the test ends.
func awaitLocked(t *testing.T, cmd *exec.Cmd, row string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the exit status does not matter
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("%s: it printed %q", row, lines.Text())
	}
}

func isFree(t *testing.T, pool *pgxpool.Pool, row string) bool {
	t.Helper()
	var free bool
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `select count(*) = 1 from (select from held where name = $1 for update skip locked) x`, row).Scan(&free)
	})
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// host is a network namespace with one virtual cable that a test can pull.
type host struct{ name, gateway, network string }

// newHost creates a host if the test runs as root and iproute2 is installed.
func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("iproute2 is not installed")
	}
	pid := os.Getpid()
	// Each process uses four addresses from the block for network tests (RFC 2544).
	prefix := fmt.Sprintf("198.18.%d.", pid>>6&255)
	base := pid & 63 * 4
	h := &host{name: fmt.Sprintf("pawl%d", pid), gateway: fmt.Sprint(prefix, base+1), network: fmt.Sprint(prefix, base, "/30")}
	for _, step := range [][]string{
		{"netns", "add", h.name},
		{"link", "add", h.name, "type", "veth", "peer", "name", "cable", "netns", h.name},
		{"addr", "add", h.gateway + "/30", "dev", h.name},
		{"link", "set", h.name, "up"},
		{"-n", h.name, "addr", "add", fmt.Sprint(prefix, base+2, "/30"), "dev", "cable"},
		{"-n", h.name, "link", "set", "cable", "up"},
	} {
		if out, err := exec.Command("ip", step...).CombinedOutput(); err != nil {
			t.Skipf("this machine makes no network namespace: ip %s: %v: %s", strings.Join(step, " "), err, out)
		}
		if step[0] == "netns" {
			t.Cleanup(func() {
				_ = exec.Command("ip", "link", "del", h.name).Run() // the link may not exist
				if out, err := exec.Command("ip", "netns", "del", h.name).CombinedOutput(); err != nil {
					t.Errorf("ip netns del: %v: %s", err, out)
				}
			})
		}
	}
	return h
}

// command returns the command line that runs a program on the host. The started process runs the program itself.
func (h *host) command(program string) []string {
	return []string{"ip", "netns", "exec", h.name, program}
}

func (h *host) cut(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("ip", "-n", h.name, "link", "set", "cable", "down").CombinedOutput(); err != nil {
		t.Fatalf("cut the host off: %v: %s", err, out)
	}
}

// startFor starts a second server that the host can connect to.
func startFor(t *testing.T, h *host) *localpg.Server {
	t.Helper()
	var rules bytes.Buffer
	for _, network := range []string{"127.0.0.1/32", h.network} {
		fmt.Fprintf(&rules, "host all all %s scram-sha-256\n", network)
	}
	dir, err := os.MkdirTemp("", "pawl-gone-") // the account of the server must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pg_hba.conf")
	if err := os.WriteFile(file, rules.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := localpg.Start(t.Context(), localpg.Options{Ephemeral: true, Settings: map[string]string{
		"listen_addresses": "127.0.0.1," + h.gateway, "hba_file": file,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}
