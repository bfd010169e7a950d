package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// Timeouts for a start of Temporal: a previous server may use its whole grace period to end, and a new one takes some
// seconds to create its database.
const (
	temporalGrace   = 20 * time.Second
	temporalStartup = 60 * time.Second
)

// visibilityWriters is how many records for lists and searches a server writes at once. With the default of 512
// writers, the server writes two records per run: at its start and at its end. With few writers, most runs under load
// have ended before their record is written, so one record is enough.
const visibilityWriters = 2

// partitions is the number of partitions of a task queue. The server's default of four is for many matching hosts. Each
// partition costs rows, and reports its backlog to the others.
const partitions = 1

// namespace exists on every dev server.
const namespace = "default"

// TemporalOptions configure a start. Dir and Progress must be set.
type TemporalOptions struct {
	// Dir contains the server's database and log; it is created if missing. Only one server may use it at a time.
	Dir string
	// Port is for gRPC, UIPort for the Web UI; 0 means any free port.
	Port, UIPort int
	// SearchAttributes are registered at the start: name to type ("Keyword", "Int", …).
	SearchAttributes map[string]string
	// Sync is when commits are written to the disk; "" means SyncCheckpoints. No choice loses data after kill -9.
	Sync Sync
	// Progress gets reports of a long build.
	Progress io.Writer
}

// Sync is when a dev server waits until its database is on the disk, in SQLite's terms.
type Sync string

const (
	// SyncCheckpoints waits at checkpoints of the log: a power failure loses the commits after the last one.
	SyncCheckpoints Sync = "normal"
	// SyncCommits waits at each commit, like a production server.
	SyncCommits Sync = "full"
	// SyncNever is for tests: a power failure can destroy the file. A server that waits for a busy disk may accept no
	// requests for a minute or more.
	SyncNever Sync = "off"
)

// Temporal is a running Temporal dev server.
type Temporal struct {
	proc         *keeper.Process
	lock         *os.File
	log          string
	port, uiPort int
	ui           *uiGate
}

// CPU returns the CPU time that the server has used so far. It fails on systems without /proc.
func (t *Temporal) CPU() (time.Duration, error) { return t.proc.CPU() }

// StartTemporal starts a dev server and returns when it accepts requests and serves its UI. After an error, nothing is
// left running. The server ends with this process.
//
// Its database is SQLite with a write-ahead log, which is four times faster than without. A power failure may lose its
// last commits; pawl finishes those events from its receipts.
//
// Like a production server, it detects search attributes that are registered later within seconds. By default, a dev
// server reads its namespace again for each attribute of a request.
func StartTemporal(ctx context.Context, opts TemporalOptions) (_ *Temporal, err error) {
	path, err := FindTemporal(ctx, opts.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	// Histories contain data of events and customers, so no other user may read them. An existing directory may be open
	// to others.
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	t := &Temporal{log: filepath.Join(dir, "temporal.log")}
	if t.lock, err = keeper.Claim(dir); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		err = t.run(ctx, path, dir, opts)
		if err == nil {
			return t, nil
		}
		// The server chooses some ports itself, which another process may take before it listens. The requested ports
		// are checked before each attempt.
		log, _ := os.ReadFile(t.log)
		if try == portTries || !bytes.Contains(log, []byte("address already in use")) {
			t.ui.close()
			_ = t.lock.Close()
			return nil, err
		}
	}
}

// portTries is how often a start may fail because a port was taken meanwhile.
const portTries = 3

// run starts the server after a previous one in the same directory has ended, and returns when it is ready.
func (t *Temporal) run(ctx context.Context, path, dir string, opts TemporalOptions) (err error) {
	if err := keeper.Await(ctx, dir); err != nil {
		return err
	}
	if t.port, err = choosePort("--temporal-port", opts.Port); err != nil {
		return err
	}
	if t.uiPort, err = choosePort("--temporal-ui-port", opts.UIPort); err != nil {
		return err
	}
	inner, err := keeper.FreePort()
	if err != nil {
		return err
	}
	t.ui.close() // an earlier attempt may have left it open
	if t.ui, err = newUIGate(t.uiPort, inner); err != nil {
		return err
	}
	env := temporalEnv(os.Environ())
	if opts.Sync == SyncNever { // a server for tests does not live long enough to become large
		env = append(env, "GOGC=300")
	}
	err = t.start(ctx, keeper.Command{Path: path, Args: t.args(filepath.Join(dir, "temporal.db"), opts), Env: env,
		Dir: dir}, t.healthy)
	if err != nil {
		return fmt.Errorf("start Temporal: %w", err)
	}
	return nil
}

// start runs the server with its log, and returns when is returns nil.
func (t *Temporal) start(ctx context.Context, c keeper.Command, is func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, temporalStartup)
	defer cancel()
	c.Log, c.Signal, c.Grace = t.log, "TERM", temporalGrace
	if t.proc, err = keeper.Start(c); err != nil {
		return err
	}
	return t.proc.Ready(ctx, is)
}

func (t *Temporal) args(database string, opts TemporalOptions) []string {
	args := []string{
		"server", "start-dev",
		"--ip", "127.0.0.1",
		"--port", strconv.Itoa(t.port),
		"--ui-ip", t.ui.ip,
		"--ui-port", strconv.Itoa(t.ui.port),
		"--db-filename", database,
		"--sqlite-pragma", "journal_mode=wal",
		"--sqlite-pragma", "synchronous=" + string(cmp.Or(opts.Sync, SyncCheckpoints)),
		"--log-level", "warn",
		"--dynamic-config-value", "history.visibilityProcessorSchedulerWorkerCount=" + strconv.Itoa(visibilityWriters),
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=" + strconv.Itoa(partitions),
		"--dynamic-config-value", "matching.numTaskqueueWritePartitions=" + strconv.Itoa(partitions),
		"--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=false",
	}
	for name, kind := range opts.SearchAttributes {
		args = append(args, "--search-attribute", name+"="+kind)
	}
	return args
}

// temporalEnv returns env without TEMPORAL_*, which configure other servers.
func temporalEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "TEMPORAL_") })
}

// choosePort returns port if it is free, or any free port for 0.
func choosePort(flag string, port int) (int, error) {
	if port != 0 {
		return port, CheckPort(flag, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return keeper.FreePort()
}

// dial connects to the server.
func (t *Temporal) dial(ctx context.Context) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: t.Addr(),
		Logger:   sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// healthy describes the namespace and requests the UI.
func (t *Temporal) healthy(ctx context.Context) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.WorkflowService().DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: namespace}); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.UIURL(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Addr returns the gRPC address, "127.0.0.1:7233".
func (t *Temporal) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)) }

// UIURL returns the URL of the Web UI.
func (t *Temporal) UIURL() string { return "http://127.0.0.1:" + strconv.Itoa(t.uiPort) }

// LogFile returns the path of the server's log.
func (t *Temporal) LogFile() string { return t.log }

// Done is closed when the server ends, also by itself.
func (t *Temporal) Done() <-chan struct{} { return t.proc.Done() }

// Stop ends the server and waits until it has ended or ctx ends. It may be called twice.
func (t *Temporal) Stop(ctx context.Context) error {
	err := t.proc.Stop(ctx)
	t.ui.close()
	if t.lock != nil {
		_ = t.lock.Close()
	}
	if err != nil {
		return fmt.Errorf("stop Temporal: %w", err)
	}
	return nil
}
