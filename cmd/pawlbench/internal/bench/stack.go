package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// Options are the common options of both benchmarks.
type Options struct {
	// Pawl is the path of the pawl binary, Self the path of pawlbench, which serves the rivals. The measured server
	// runs in its own processes, as in production, so that its memory is measured separately and the client's garbage
	// does not affect it.
	Pawl, Self string
	// Progress gets a line at each step.
	Progress io.Writer
	Log      *slog.Logger
	// Signals makes pawl's processes log each change of state, trace one delivery in a hundred, and get their metrics
	// scraped. Without Signals, the processes log only warnings.
	Signals bool
}

func (o Options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Progress, format+"\n", args...)
}

// Providers returns the providers of the measured servers: only Stripe.
func Providers() map[string]webhook.Provider {
	return map[string]webhook.Provider{stripe.Provider.Name: stripe.Provider}
}

// stack is the environment of the benchmarks: everything except pawl. It is new for every run and removed afterwards.
type stack struct {
	Options
	dir      string
	secret   string
	postgres *localpg.Server
	// temporalPostgres is the database server of the Temporal server. It is nil for the dev server. It is separate, so
	// that its commits do not count as commits of pawl.
	temporalPostgres *localpg.Server
	temporal         *dev.Temporal
	sandbox          *sandbox.Sandbox
	children         []*child
	// signals receives traces and metrics; nil without Options.Signals.
	signals *signals
}

func newStack(ctx context.Context, o Options) (_ *stack, err error) {
	s := &stack{Options: o, secret: "whsec_" + rand.Text() + rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "pawl-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { // Postgres may run as another user
		return nil, err
	}
	s.postgres, err = s.startPostgres(ctx, "postgres", map[string]string{"min_wal_size": "4GB", "max_wal_size": "4GB"})
	return s, err
}

// segments is how many segments a server with the settings of newStack fills between two checkpoints.
const segments = 128

// wearIn brings the server's write-ahead log into its state after some hours in production, when used segments are
// overwritten. On a new server, commits wait until the next segment is filled with zeros, and pawl needs several
// segments a second.
func (s *stack) wearIn(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, s.postgres.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for range segments {
		// The server does not switch away from an empty segment.
		if _, err := conn.Exec(ctx, "select pg_logical_emit_message(false, 'pawl', 'bench')"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "select pg_switch_wal()"); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "checkpoint")
	return err
}

// startPostgres starts a server that syncs its commits, as in production.
func (s *stack) startPostgres(ctx context.Context, name string, settings map[string]string) (*localpg.Server, error) {
	s.say("starting %s", name)
	// The server outlives ctx; close stops the servers in order.
	return localpg.Start(context.WithoutCancel(ctx),
		localpg.Options{Dir: filepath.Join(s.dir, name), Settings: settings, Log: s.Log})
}

// database creates a migrated database and returns its URL.
func (s *stack) database(ctx context.Context, name string) (string, error) {
	if err := s.postgres.EnsureDatabase(ctx, name); err != nil {
		return "", err
	}
	dsn := s.postgres.DSN(name)
	return dsn, schema.Migrate(ctx, dsn, s.Log)
}

// The kinds of Temporal servers.
const (
	devServer      = "dev"
	postgresServer = "postgres"
	// syncedDevServer syncs every commit, which is required before answering a provider.
	syncedDevServer = "dev, synced"
)

func (s *stack) startTemporal(ctx context.Context, kind string) (err error) {
	s.say("starting Temporal (%s)", kind)
	dir := filepath.Join(s.dir, "temporal")
	if kind != postgresServer {
		attributes := map[string]string{}
		for _, name := range process.SearchAttributes() {
			attributes[name] = "Keyword"
		}
		sync := dev.SyncCheckpoints
		if kind == syncedDevServer {
			sync = dev.SyncCommits
		}
		s.temporal, err = dev.StartTemporal(ctx, dev.TemporalOptions{
			Dir: dir, SearchAttributes: attributes, Sync: sync, Progress: s.Progress,
		})
		return err
	}
	if s.temporalPostgres, err = s.startPostgres(ctx, "temporal-postgres", dev.PostgresSettings); err != nil {
		return err
	}
	s.temporal, err = dev.StartTemporalOnPostgres(ctx,
		dev.TemporalOnPostgresOptions{Dir: dir, Postgres: s.temporalPostgres, Progress: s.Progress})
	return err
}

// child is a process of pawl with its addresses.
type child struct {
	name                                string
	configFile, ingress, ops, workerOps string

	args []string
	proc *keeper.Process
}

// nowhere is an address without a Temporal server.
const nowhere = "127.0.0.1:1"

// configure writes the configuration of one process. Without a Temporal server or a sandbox, the process gets an
// address without a listener.
func (s *stack) configure(name, dsn string) (*child, error) {
	ports, err := keeper.FreePorts(3)
	if err != nil {
		return nil, err
	}
	addr := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	c := &child{name: name, ingress: addr(ports[0]), ops: addr(ports[1]), workerOps: addr(ports[2])}
	temporal := nowhere
	if s.temporal != nil {
		temporal = s.temporal.Addr()
	}
	params := template.DevParams{
		Ingress: c.ingress, Console: "127.0.0.1:0", Ops: c.ops, WorkerOps: c.workerOps,
		WorkspacesURL: "http://127.0.0.1:1", FinanceURL: "http://127.0.0.1:1", SMTP: "127.0.0.1:1",
		EventsURL:  "http://127.0.0.1:1",
		EventTypes: "access.changed", // the naive workflow publishes this type
	}
	if s.sandbox != nil {
		params.WorkspacesURL, params.FinanceURL = s.sandbox.URL(), s.sandbox.URL()
		params.SMTP, params.EventsURL = s.sandbox.SMTPAddr(), s.sandbox.URL()+"/events"
	}
	content := string(template.Dev(params))
	if s.signalled(name) {
		if s.signals == nil {
			if s.signals, err = takeSignals(); err != nil {
				return nil, err
			}
		}
		content += "\ntracing: {endpoint: " + s.signals.url + "}\n"
		s.signals.ask(c.ops, c.workerOps)
	}
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
		return nil, err
	}
	for file, content := range map[string]string{
		"database.url":   dsn,
		"secrets/stripe": s.secret,
		"temporal.toml":  fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = \"default\"\n", temporal),
		"pawl.yaml":      content,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	c.configFile = filepath.Join(dir, "pawl.yaml")
	return c, nil
}

// signalled reports whether the named process logs, traces and gets its metrics scraped.
func (s *stack) signalled(name string) bool { return s.Signals || name == ModeSignals }

// run starts the program at path with its own configuration and returns when it accepts requests, or has started if it
// has no listener.
func (s *stack) run(ctx context.Context, path, name, dsn string, args ...string) (*child, error) {
	c, err := s.configure(name, dsn)
	if err != nil {
		return nil, err
	}
	c.args = args
	level := "warn"
	if s.signalled(name) {
		level = "info"
	}
	c.proc, err = keeper.Start(keeper.Command{
		Path: path, Args: append(slices.Clone(args), "--config", c.configFile, "--log-level", level),
		Log: filepath.Join(s.dir, name, "log"), Signal: "TERM",
	})
	if err != nil {
		return nil, err
	}
	s.children = append(s.children, c)
	return c, c.ready(ctx)
}

// ready waits until the process is ready by its ops listener.
func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ops := c.ops
	if c.args[0] == "worker" {
		ops = c.workerOps
	}
	err := c.proc.Ready(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pawl %s: %w", c.name, err)
	}
	return nil
}

// failed adds the end of the process's log to err.
func (c *child) failed(err error) error { return fmt.Errorf("pawl %s: %w", c.name, c.proc.Failed(err)) }

// stopChildren stops pawl's processes and reports the peak memory of each.
func (s *stack) stopChildren(ctx context.Context) error {
	var errs []error
	for _, c := range s.children {
		if err := c.proc.Stop(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		s.say("memory of %s: %d MiB at most", c.name, c.proc.PeakMemory()>>20)
	}
	s.children = nil
	return errors.Join(errs...)
}

// close stops everything, Postgres last, and removes the stack's directory.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := []error{s.stopChildren(ctx)}
	if s.signals != nil {
		errs = append(errs, s.signals.close())
	}
	if s.temporal != nil {
		errs = append(errs, s.temporal.Stop(ctx))
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Close())
	}
	for _, p := range []*localpg.Server{s.temporalPostgres, s.postgres} {
		if p != nil {
			errs = append(errs, p.Stop(ctx))
		}
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
