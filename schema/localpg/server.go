package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// superuser is the owner of the cluster and of every database in it.
const superuser = "pawl"

// startTimeout limits the time of a start. The recovery of a development database after a crash takes seconds.
const startTimeout = 60 * time.Second

// Options configure a server.
type Options struct {
	// Dir is the state directory. It is created if it does not exist. Required unless Ephemeral is set.
	Dir string
	// Ephemeral starts a server for tests. The server uses an empty temporary directory, which is removed at the end,
	// and allows 200 connections. It runs without fsync, because the data need not survive a crash of the machine.
	Ephemeral bool
	// Settings are additional server settings, such as "log_statement": "all".
	Settings map[string]string
	// Log receives messages for people; nil discards them.
	Log *slog.Logger
}

// Server is a private PostgreSQL server. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	acc      account
	bin      binaries
	home     string
	data     string
	password string
	port     int
	lock     *os.File
	log      *slog.Logger

	mu   sync.Mutex
	proc *keeper.Process // nil while the server is paused or stopped
}

// Start starts a server and returns when it accepts connections. If Start fails, no process is left running. The server
// ends when this process ends.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	s := &Server{opts: opts, log: opts.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	forgetEnvironment()
	if err := s.settle(ctx); err != nil {
		return nil, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	if err := s.install(ctx); err != nil {
		return nil, err
	}
	if err := s.Resume(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// settle chooses and locks the directories of the server.
func (s *Server) settle(ctx context.Context) (err error) {
	if s.opts.Ephemeral {
		if s.acc, err = serverAccount(""); err == nil {
			s.home, err = ephemeralHome(ctx, s.acc)
		}
		s.opts.Dir = s.home
	} else {
		err = s.settleIn(ctx)
	}
	if err != nil {
		return err
	}
	s.data = filepath.Join(s.home, "data")
	s.password, err = loadPassword(filepath.Join(s.opts.Dir, passwordFile))
	return err
}

// settleIn is settle for a server that keeps its data.
func (s *Server) settleIn(ctx context.Context) (err error) {
	if s.opts.Dir == "" {
		return errors.New("Options.Dir is empty")
	}
	if s.opts.Dir, err = filepath.Abs(s.opts.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		return err
	}
	if s.lock, err = keeper.Claim(s.opts.Dir); err != nil {
		return err
	}
	if s.acc, err = serverAccount(filepath.Join(s.opts.Dir, "data")); err != nil {
		return err
	}
	s.home, err = findHome(ctx, s.opts.Dir, s.acc, s.log)
	return err
}

// Resume starts the server again after [Server.Pause], on the same port. It does nothing while
// the server runs.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		select {
		case <-s.proc.Done(): // the server ended without a call of Pause or Stop
		default:
			return nil
		}
	}
	if s.port == 0 {
		var err error
		if s.port, err = keeper.FreePort(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.launch(ctx)
}

// launch waits until an earlier server in the same home has ended. It then runs postgres and waits until it accepts
// connections.
func (s *Server) launch(ctx context.Context) error {
	if err := keeper.Await(ctx, s.home); err != nil {
		return err
	}
	if err := s.forgetPID(); err != nil {
		return err
	}
	cmd := keeper.Command{
		Path:       s.bin.path("postgres"),
		Args:       s.args(),
		Env:        serverEnv(),
		Dir:        s.home,
		Log:        filepath.Join(s.opts.Dir, "postgres.log"),
		Credential: s.acc.cred,
		Signal:     "INT", // a fast shutdown: postgres disconnects clients and writes its data
	}
	if s.opts.Ephemeral {
		cmd.RemoveOnDeath = s.home
	}
	proc, err := keeper.Start(cmd)
	if err != nil {
		return err
	}
	if err := proc.Ready(ctx, s.takesConnections); err != nil {
		return fmt.Errorf("start PostgreSQL on %s: %w", s.data, err)
	}
	s.proc = proc
	return nil
}

func (s *Server) takesConnections(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// forgetPID removes the pid file of a server that was killed. Another process may have got this process ID, and
// PostgreSQL would mistake it for the old server. If the process is a PostgreSQL, forgetPID keeps the file, because
// PostgreSQL handles this case itself.
func (s *Server) forgetPID() error {
	file := filepath.Join(s.data, "postmaster.pid")
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, _, _ := strings.Cut(string(content), "\n")
	if command, err := os.ReadFile(filepath.Join("/proc", pid, "comm")); err == nil &&
		strings.HasPrefix(string(command), "postgres") {
		return nil
	}
	return os.Remove(file)
}

// args returns the settings of the server as command-line arguments, so that no setting is stored in a file.
func (s *Server) args() []string {
	settings := map[string]string{
		"listen_addresses": "127.0.0.1",
		"port":             strconv.Itoa(s.port),
		// No socket, because the path may be too long (over 107 bytes) or its directory may not be writable.
		"unix_socket_directories": "",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"shared_buffers":          "128MB",
		"max_connections":         "100",
		"log_checkpoints":         "off",
		"logging_collector":       "off",
	}
	if s.opts.Ephemeral {
		settings["max_connections"] = "200"
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, s.opts.Settings)
	args := []string{"-D", s.data}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// Pause stops the server and disconnects its clients. It keeps the data and the port for [Server.Resume].
func (s *Server) Pause(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	err := s.proc.Stop(ctx)
	s.proc = nil
	return err
}

// CPU returns the CPU time that the server and all its processes have used since the start or the last Resume. It fails
// while the server is paused or stopped, and on systems without /proc.
func (s *Server) CPU() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0, errors.New("the server does not run")
	}
	return s.proc.CPU()
}

// Stop stops the server and releases its state directory. An ephemeral directory is removed. Stop returns when the
// server has ended or when ctx ends. It may be called twice.
func (s *Server) Stop(ctx context.Context) error {
	err := s.Pause(ctx)
	s.release()
	return err
}

// release releases the locks and removes the directories that settle created.
func (s *Server) release() {
	if s.opts.Ephemeral && s.home != "" {
		if err := os.RemoveAll(s.home); err != nil {
			s.log.Warn("a temporary directory cannot be removed", "data", s.home, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		_ = s.lock.Close() // closing the file releases the lock
		s.lock = nil
	}
}

// DSN returns the URL of a database of this server, for its superuser. It contains the password.
func (s *Server) DSN(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// EnsureDatabase creates the database unless it exists.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "42P04" { // duplicate_database
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}
