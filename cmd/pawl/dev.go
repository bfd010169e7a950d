package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/devstack"
	"github.com/pawlhq/pawl/cmd/internal/devstack/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/timeline"
)

// devFlags are what `pawl dev` can be told.
type devFlags struct {
	state, ingress, console, ops string
	temporalPort, temporalUIPort int
	sandboxPort, sandboxSMTPPort int
	noDemo                       bool
	// day is how long a day of the policy lasts.
	day time.Duration
	// own is a file of one's own, "" for none; with real its sources and sinks are taken, too.
	own  string
	real bool
}

func (a *app) dev() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use: "dev", Short: "Run all of pawl on this machine, with a sandbox for the outside world", Args: noArgument,
		Long: `Run all of pawl on this machine: a private PostgreSQL (or DATABASE_URL), a Temporal dev server with its
UI, the sandbox (mail, workspaces, finance, an event subscriber, a consumer of relayed events), ingress and
worker, with a source for each provider. It sends one signed invoice.paid and shows each effect being done.
Ctrl-C stops everything; state stays under --state. The secrets in STATE/secrets are made where they are
missing; STATE/secrets/NAME.key is for send --key.

The temporal command on PATH is taken, else one is built, once. Version 1.5.1 as it is released can stop answering for
good on a busy machine ("interrupted (9)" in STATE/temporal/temporal.log); the one that is built does not.

--config FILE takes plans, policy, mail and retries of a file of your own, such as pawl init writes, and sends nothing
by itself. With --real its sources, consumers and sinks are taken, too: events come from Stripe (stripe listen
--forward-to), and effects reach your systems. FILE is only read: what runs is STATE/pawl.yaml.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("config") {
				f.own, f.noDemo = a.configFile, true
			}
			if f.day < time.Second || f.day > 24*time.Hour {
				return usagef("--day: %s is not between 1s and 24h", f.day)
			}
			if f.real && f.own == "" {
				return usagef("--real needs --config FILE: the sources and sinks are those of the file")
			}
			return a.runDev(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", ".pawl", "`directory` that keeps everything")
	flags.StringVar(&f.ingress, "ingress", "127.0.0.1:8080", "`address` that takes webhooks")
	flags.StringVar(&f.console, "console", "127.0.0.1:8081",
		"`address` kept for the operator's console, which is not there yet")
	flags.StringVar(&f.ops, "ops", "127.0.0.1:8082", "`address` of /livez, /readyz and /metrics")
	flags.IntVar(&f.temporalPort, "temporal-port", 7233, "`port` of the Temporal server")
	flags.IntVar(&f.temporalUIPort, "temporal-ui-port", 8233, "`port` of the Temporal UI")
	flags.IntVar(&f.sandboxPort, "sandbox-port", 8083, "`port` of the sandbox's endpoints")
	flags.IntVar(&f.sandboxSMTPPort, "sandbox-smtp-port", 8025, "`port` of the sandbox's mailbox")
	flags.BoolVar(&f.real, "real", false, "with --config: the file's own sources and sinks instead of the sandbox")
	flags.DurationVar(&f.day, "day", 24*time.Hour, "how long a `day` lasts for what the clock does (grace, reminders, planned ends), and for send --scenario")
	flags.BoolVar(&f.noDemo, "no-demo", false, "do not send an event at the start")
	return cmd
}

// devStack is what `pawl dev` has started, and where it is.
type devStack struct {
	flags    devFlags
	dir      string
	dsn      string
	postgres *localpg.Server
	temporal *devstack.Temporal
	sandbox  *sandbox.Sandbox
}

func (a *app) runDev(ctx context.Context, f devFlags) (err error) {
	begin := time.Now()
	s := &devStack{flags: f}
	if s.dir, err = stateDir(f.state); err != nil {
		return err
	}
	// A dev that was killed a moment ago may have left its Temporal on the way down, on these ports.
	if err := devstack.AwaitStopped(ctx, filepath.Join(s.dir, "temporal")); err != nil {
		return err
	}
	if _, err := s.content(config.DevParams{}); err != nil { // first: what is started takes a while
		return err
	}
	if err := f.checkPorts(); err != nil {
		return err
	}
	if f.own != "" && sameFile(f.own, filepath.Join(s.dir, "pawl.yaml")) {
		return fmt.Errorf("%s is written by pawl dev itself: give --config a file of your own, or leave it out", f.own)
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := a.startStack(ctx, s); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting: that is no failure
		}
		return err
	}
	cfg, err := s.configure(a)
	if err != nil {
		return err
	}
	n, err := process.New(ctx, cfg, providers(), a.log)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.CheckSchema(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	group.Go(func() error { return n.RunOps(ctx, process.Ingress) })
	group.Go(func() error { return n.RunWorker(ctx) })
	group.Go(func() error { return n.RunIngress(ctx, ready) })
	group.Go(func() error { return serveConsole(ctx, f.console) })
	group.Go(func() error { return s.watch(ctx) })
	group.Go(func() (err error) {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
		var demo *timeline.Event
		if !f.noDemo {
			demo, err = a.demo(ctx, n, begin)
			if ctx.Err() != nil { // stopped meanwhile: that is no failure, and nothing is ready
				return nil
			}
			if err != nil {
				return err
			}
		}
		return s.announce(a, cfg, begin, demo)
	})
	return group.Wait()
}

// sameFile reports whether two paths lead to one file that is there.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// checkPorts says which flag names a port that cannot be had, because another flag has it or because
// somebody listens there.
func (f devFlags) checkPorts() error {
	listeners := [][2]string{
		{"--ingress", f.ingress}, {"--console", f.console}, {"--ops", f.ops},
		{"--temporal-port", localAddr(f.temporalPort)}, {"--temporal-ui-port", localAddr(f.temporalUIPort)},
		{"--sandbox-port", localAddr(f.sandboxPort)}, {"--sandbox-smtp-port", localAddr(f.sandboxSMTPPort)},
	}
	flagOf := map[string]string{}
	for _, l := range listeners {
		flag, addr := l[0], l[1]
		_, port, err := net.SplitHostPort(addr)
		switch other := flagOf[port]; {
		case err != nil: // told below
			continue
		case port == "0" && strings.HasSuffix(flag, "-port"): // a free one
		case port == "0":
			return fmt.Errorf("%s names no port (flag %s): choose one, it is written into the configuration", addr,
				flag)
		case other != "":
			return fmt.Errorf("port %s is given to both %s and %s: choose another for one of them", port, other, flag)
		}
		flagOf[port] = flag
	}
	for _, l := range listeners {
		if err := devstack.CheckPort(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

func localAddr(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// startStack starts what pawl needs beside itself, side by side.
func (a *app) startStack(ctx context.Context, s *devStack) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.startDatabase(ctx, s) })
	group.Go(func() error { return a.startTemporal(ctx, s) })
	group.Go(func() (err error) {
		// It outlives this function, and is stopped in order with the others.
		s.sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Config{
			Dir: filepath.Join(s.dir, "sandbox"), Log: a.log,
			HTTPAddr: localAddr(s.flags.sandboxPort), SMTPAddr: localAddr(s.flags.sandboxSMTPPort),
		})
		return err
	})
	return group.Wait()
}

// startDatabase takes the database of DATABASE_URL, else that of a private server, and migrates it.
func (a *app) startDatabase(ctx context.Context, s *devStack) error {
	if url, ok := a.env("DATABASE_URL"); ok && url != "" {
		fmt.Fprintln(a.err, "postgres  using DATABASE_URL")
		if _, err := process.ParseDSN("DATABASE_URL", url); err != nil {
			return err
		}
		s.dsn = url
	} else {
		fmt.Fprintln(a.err, "postgres  starting a private server")
		// A start is not broken off: the server is stopped in order, with the others.
		server, err := localpg.Start(context.WithoutCancel(ctx),
			localpg.Options{Dir: filepath.Join(s.dir, "postgres"), Log: a.log})
		if err != nil {
			return err
		}
		s.postgres = server
		if err := server.EnsureDatabase(ctx, "pawl"); err != nil {
			return err
		}
		s.dsn = server.DSN("pawl")
	}
	if err := schema.Migrate(ctx, s.dsn, a.log); err != nil {
		return s.explain(err)
	}
	fmt.Fprintln(a.err, "postgres  ready")
	return nil
}

func (a *app) startTemporal(ctx context.Context, s *devStack) error {
	attributes := map[string]string{}
	for _, name := range process.SearchAttributes() {
		attributes[name] = "Keyword"
	}
	fmt.Fprintln(a.err, "temporal  starting")
	server, err := devstack.StartTemporal(ctx, devstack.TemporalOptions{
		Dir: filepath.Join(s.dir, "temporal"), Port: s.flags.temporalPort, UIPort: s.flags.temporalUIPort,
		SearchAttributes: attributes, Progress: a.err,
	})
	if err != nil {
		return err
	}
	s.temporal = server
	fmt.Fprintln(a.err, "temporal  ready")
	return nil
}

// explain says in one sentence that the state is of a newer pawl, or, without the password, that the user's
// own database cannot be reached.
func (s *devStack) explain(err error) error {
	var newer *schema.NewerError
	if s.postgres != nil && errors.As(err, &newer) {
		return fmt.Errorf("%s was made by another version of pawl: %w, or another --state", s.dir, newer)
	}
	var connect *pgconn.ConnectError
	if s.postgres != nil || !errors.As(err, &connect) {
		return err
	}
	return fmt.Errorf("the database of DATABASE_URL cannot be reached: %s (unset DATABASE_URL to have one started)", causeOf(connect))
}

// configure writes the configuration that the stack runs with and reads it back, so that every other
// command sees the same.
func (s *devStack) configure(a *app) (*config.Config, error) {
	var sources []config.DevSource
	for _, p := range allProviders() {
		if err := s.makeKeys(p.Name, p); err != nil {
			return nil, err
		}
		if p.Name == "stripe" { // it has flows, and stands in the configuration by itself
			continue
		}
		source := config.DevSource{Provider: p.Name, Options: p.Sample.Options}
		if p.Contract.Mode == "" {
			source.Mode = webhook.Test
		}
		sources = append(sources, source)
	}
	if err := s.makeKeys("consumer", standardwebhooks.Provider); err != nil {
		return nil, err
	}
	content, err := s.content(config.DevParams{
		Day:     s.flags.shortDay(),
		Ingress: s.flags.ingress, Console: s.flags.console, Ops: s.flags.ops, WorkerOps: "127.0.0.1:0",
		WorkspacesURL: s.sandbox.URL(), FinanceURL: s.sandbox.URL(), SMTP: s.sandbox.SMTPAddr(),
		TemporalUI: s.temporal.UIURL(), Subscriber: s.sandbox.URL() + "/events", Consumer: s.sandbox.URL() +
			"/relayed", StripeAPI: s.sandbox.URL() + "/stripe", Sources: sources,
	})
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"database.url": s.dsn + "\n",
		// Of no mode: the stand-in shows both, as the source takes both.
		"secrets/stripe-api": "rk_dev\n",
		"temporal.toml":      fmt.Sprintf("# Written by `pawl dev`: how the Temporal SDK reaches the dev server.\n[profile.default]\naddress = %q\nnamespace = \"default\"\n", s.temporal.Addr()),
		"pawl.yaml":          string(content),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	a.configFile = filepath.Join(s.dir, "pawl.yaml")
	return a.config()
}

// shortDay is how long a day lasts, "" for 24 hours.
func (f devFlags) shortDay() string {
	if f.day == 24*time.Hour {
		return ""
	}
	return output.ShortDuration(f.day)
}

// content is the configuration to run with: that of dev, or with parts of a file of one's own.
func (s *devStack) content(p config.DevParams) ([]byte, error) {
	if s.flags.own == "" {
		return config.Dev(p), nil
	}
	own, err := os.ReadFile(s.flags.own)
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	content, err := config.DevOf(p, s.flags.own, own, s.flags.real)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.flags.own, err)
	}
	return content, nil
}

// makeKeys makes the secret of a source or consumer for the file of this name under secrets/, unless it is there.
// Where the provider signs with a private key, that is beside it, for `pawl send --key`.
func (s *devStack) makeKeys(name string, provider webhook.Provider) error {
	file := filepath.Join(s.dir, "secrets", name)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := provider.Sample.NewKeys()
	if err != nil {
		return fmt.Errorf("make keys of %s: %w", name, err)
	}
	if keys.Pair() { // first: what verifies is of no use without it
		if err := os.WriteFile(file+".key", []byte(keys.Sign+"\n"), 0o600); err != nil {
			return fmt.Errorf("write private key: %w", err)
		}
	}
	if err := os.WriteFile(file, []byte(keys.Verify+"\n"), 0o600); err != nil {
		return fmt.Errorf("write signing secret: %w", err)
	}
	return nil
}

// watch ends the stack when Temporal ends by itself: what is left would only wait.
func (s *devStack) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.temporal.Done():
		return fmt.Errorf("the Temporal server ended by itself; its log is %s", s.temporal.LogFile())
	}
}

// stop ends what was started, Postgres last.
func (s *devStack) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	if s.temporal != nil {
		errs = append(errs, s.temporal.Stop(ctx))
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Close())
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Stop(ctx))
	}
	return errors.Join(errs...)
}

// serveConsole answers for the console until there is one: a person who looks there is told where to look.
func serveConsole(ctx context.Context, addr string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for the console (console.listen): %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "The console is not there yet. Use `pawl events list` and the Temporal UI.",
				http.StatusNotImplemented)
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}
