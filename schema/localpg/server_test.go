package localpg

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// parentEnv names a directory ("ephemeral" for none). If it is set, the test binary starts a server in this
// directory, prints the server's process ID and home, and waits to be killed.
const parentEnv = "PAWL_LOCALPG_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		opts := Options{Dir: dir}
		if dir == "ephemeral" {
			opts = Options{Ephemeral: true}
		}
		s, err := Start(context.Background(), opts)
		if err != nil {
			panic(err)
		}
		if _, err := os.Stdout.WriteString(strconv.Itoa(postmasterPID(s.data)) + " " + s.home + "\n"); err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

// startParent runs this program and returns the process ID and the home of its server.
func startParent(t *testing.T, dir string) (parent *exec.Cmd, postmaster int, home string) {
	t.Helper()
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent printed nothing: %v", err)
	}
	pid, home, _ := strings.Cut(strings.TrimSpace(line), " ")
	postmaster, err = strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the parent printed %q", line)
	}
	return parent, postmaster, home
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		case <-tick.C:
		}
	}
}

// postmasterPID returns the process ID in the pid file in data, or 0.
func postmasterPID(data string) int {
	content, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	line, _, _ := strings.Cut(string(content), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// openDir returns a state directory that every user can enter. Other users cannot enter the directory of t.TempDir.
func openDir(t *testing.T) string {
	t.Helper()
	open, err := os.MkdirTemp("", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(open, "postgres")
}

// closedDir returns a state directory below a directory that only the current user can enter, as root's home
// directory is.
func closedDir(t *testing.T) string {
	t.Helper()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(closed, "postgres")
}

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func execSQL(t *testing.T, s *Server, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), sql)
	return err
}

// removeOutside removes the home of a test's server if the home is outside of the state directory.
func removeOutside(t *testing.T, s *Server) {
	t.Helper()
	if s.home != s.opts.Dir {
		t.Cleanup(func() { _ = os.RemoveAll(s.home) })
	}
}

func TestStart_RestartFindsItsData_DeletedDirBeginsEmpty(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"reachable": openDir(t), "closed": closedDir(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := start(t, dir)
			removeOutside(t, first)
			if outside := first.home != first.opts.Dir; outside != (os.Geteuid() == 0 && name == "closed") {
				t.Errorf("home is %s for state directory %s", first.home, dir)
			}
			if err := execSQL(t, first, "CREATE TABLE kept (id int)"); err != nil {
				t.Fatal(err)
			}
			stop(t, first)

			second := start(t, dir)
			if err := execSQL(t, second, "SELECT * FROM kept"); err != nil {
				t.Errorf("after a restart: %v", err)
			}
			stop(t, second)

			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			third := start(t, dir)
			removeOutside(t, third)
			if err := execSQL(t, third, "SELECT * FROM kept"); err == nil {
				t.Error("the data of a deleted state directory is still there")
			}
			if third.home != dir && !missing(first.home) {
				t.Errorf("%s stays though its state directory was deleted", first.home)
			}
		})
	}
}

func TestStart_ParentKilled_NoServerLeft_DataKept(t *testing.T) {
	t.Parallel()
	dir := closedDir(t)
	parent, postmaster, home := startParent(t, dir)
	if home != dir {
		t.Cleanup(func() { _ = os.RemoveAll(home) })
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	// The server starts again at once, while the old server is still shutting down.
	s := start(t, dir)
	if !gone(postmaster) {
		t.Error("two postmasters on one state directory")
	}
	if err := execSQL(t, s, "SELECT 1"); err != nil {
		t.Error(err)
	}
}

func TestStart_EphemeralParentKilled_NothingLeft(t *testing.T) {
	t.Parallel()
	parent, postmaster, home := startParent(t, "ephemeral")
	if missing(home) {
		t.Fatalf("no home %s while the server runs", home)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "postmaster gone", func() bool { return gone(postmaster) })
	eventually(t, "home removed", func() bool { return missing(home) })
}

func TestStop_Ephemeral_NothingLeft(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	postmaster := postmasterPID(s.data)
	stop(t, s)
	if !gone(postmaster) || !missing(s.home) {
		t.Errorf("after Stop: postmaster gone = %t, home removed = %t", gone(postmaster), missing(s.home))
	}
	stop(t, s) // Stop may be called twice
}

// Two servers on one data directory would destroy it.
func TestStart_SomebodysServerOnTheData_Refused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := start(t, dir)
	stop(t, s)
	port, err := keeper.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	options := "-p " + strconv.Itoa(port) + " -c unix_socket_directories= -c listen_addresses=127.0.0.1"
	control := func(args ...string) {
		cmd := s.acc.command(context.Background(), s.bin.path("pg_ctl"), append(args, "-D", s.data, "-w")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("pg_ctl %v: %v: %s", args, err, out)
		}
	}
	control("start", "-o", options, "-l", filepath.Join(s.data, "other.log"))
	defer control("stop", "-m", "fast")
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "postmaster.pid") {
		t.Errorf("Start() = %v, want that another server runs there", err)
	}
}

func TestStart_StalePIDFile_DoesNotMatter(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for name, pid := range map[string]int{"of a dead process": dead.Process.Pid, "of somebody else's process": os.Getpid()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			s := start(t, dir)
			stop(t, s)
			pidFile := filepath.Join(s.data, "postmaster.pid")
			content := strconv.Itoa(pid) + "\n" + s.data + "\n1\n5432\n\n127.0.0.1\n  0 0\n"
			if err := os.WriteFile(pidFile, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.acc.own(pidFile); err != nil {
				t.Fatal(err)
			}
			start(t, dir)
		})
	}
}

func TestStart_DirInUse_OneClearSentence(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	start(t, dir)
	_, err := Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir+" is in use by another running pawl") {
		t.Errorf("Start() = %v; want the directory and that it is in use", err)
	}
}

func TestStart_OtherMajorVersion_OneClearSentence(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), data+" was created by PostgreSQL 7, but only PostgreSQL") ||
		!strings.Contains(err.Error(), "install PostgreSQL 7, or delete "+dir) {
		t.Errorf("Start() = %v; want the directory, both versions and what to do", err)
	}
}

func TestStart_InterruptedInitdb_BeginsAgain(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	half := filepath.Join(dir, "initdb", "data")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
	if !missing(half) {
		t.Error("half a data directory is left")
	}
}

func TestServer_EnsureDatabase_Twice(t *testing.T) {
	t.Parallel()
	s := start(t, openDir(t))
	for range 2 {
		if err := s.EnsureDatabase(t.Context(), "pawl"); err != nil {
			t.Errorf("EnsureDatabase() = %v", err)
		}
	}
	conn, err := pgx.Connect(t.Context(), s.DSN("pawl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServer_PasswordIsAskedForAndPrivate(t *testing.T) {
	t.Parallel()
	s := start(t, openDir(t))
	info, err := os.Stat(filepath.Join(s.opts.Dir, passwordFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file has mode %v, %v; want 0600", info.Mode(), err)
	}
	wrong := strings.Replace(s.DSN("postgres"), s.password, "wrong", 1)
	if _, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Error("the server takes a wrong password")
	}
}

// A server with durable data must not use the settings for tests.
func TestServer_DurableKeepsFsync(t *testing.T) {
	t.Parallel()
	s := start(t, openDir(t))
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&value); err != nil || value != "on" {
			t.Errorf("%s = %q, %v; want on", setting, value, err)
		}
	}
}

// A developer's shell may contain environment variables that name other servers.
func TestStart_EnvironmentOfOtherServers_NotRead(t *testing.T) {
	for name, value := range map[string]string{
		"PGSERVICE": "nope", "PGSSLROOTCERT": "/nowhere", "PGOPTIONS": "-c search_path=elsewhere", "PGTARGETSESSIONATTRS": "read-only",
	} {
		t.Setenv(name, value)
	}
	s, err := Start(t.Context(), Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var path string
	if err := conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path); err != nil || path != `"$user", public` {
		t.Errorf("search_path = %q (%v), want the server's own", path, err)
	}
}
