package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/localpg/keeper"
	"github.com/pawlhq/pawl/workflows"
)

// Options configure the stack of `pawl dev`.
type Options struct {
	// State is the directory for all state.
	State string
	// Ingress, Console and Ops are addresses.
	Ingress, Console, Ops        string
	TemporalPort, TemporalUIPort int
	SandboxPort, SandboxSMTPPort int
	// Day is the duration of a day of the policy.
	Day time.Duration
	// Own is a configuration file of the user, or "". With Real, its sources and sinks are used as well.
	Own  string
	Real bool

	Providers map[string]webhook.Provider
	// Database is a database of the user, or "" for a private server.
	Database string
	// Progress gets a line for each part that starts.
	Progress io.Writer
	Log      *slog.Logger
}

// Stack is the environment of `pawl dev`: a database, a Temporal server and the sandbox.
type Stack struct {
	Options
	Dir      string
	Temporal *Temporal
	Sandbox  *sandbox.Sandbox
	dsn      string
	postgres *localpg.Server
	lock     *os.File
}

// Start creates or checks the state directory, and starts the stack. After an error, the caller must stop the parts
// that are already running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{Options: o}
	var err error
	if s.Dir, err = stateDir(o.State); err != nil {
		return s, err
	}
	if s.lock, err = keeper.Claim(s.Dir); err != nil {
		return s, err
	}
	// A dev that was just killed may have left its Temporal shutting down on these ports.
	if err := keeper.Await(ctx, filepath.Join(s.Dir, "temporal")); err != nil {
		return s, err
	}
	// check the configuration first, because a start takes a while
	if _, err := s.content(template.DevParams{}); err != nil {
		return s, err
	}
	if err := o.checkPorts(); err != nil {
		return s, err
	}
	if o.Own != "" && sameFile(o.Own, filepath.Join(s.Dir, "pawl.yaml")) {
		return s, fmt.Errorf("%s is written by pawl dev itself: give --config a file of your own, or leave it out", o.Own)
	}
	return s, s.start(ctx)
}

// sameFile reports whether two paths lead to one existing file.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// checkPorts returns an error that names the flag of an unavailable port: another flag or another process uses it.
func (o Options) checkPorts() error {
	listeners := [][2]string{
		{"--ingress", o.Ingress}, {"--console", o.Console}, {"--ops", o.Ops},
		{"--temporal-port", localAddr(o.TemporalPort)}, {"--temporal-ui-port", localAddr(o.TemporalUIPort)},
		{"--sandbox-port", localAddr(o.SandboxPort)}, {"--sandbox-smtp-port", localAddr(o.SandboxSMTPPort)},
	}
	flagOf := map[string]string{}
	for _, l := range listeners {
		flag, addr := l[0], l[1]
		_, port, err := net.SplitHostPort(addr)
		switch other := flagOf[port]; {
		case err != nil: // reported below
			continue
		case port == "0" && strings.HasSuffix(flag, "-port"): // any free port
		case port == "0":
			return fmt.Errorf("%s names no port (flag %s): choose one, it is written into the configuration", addr,
				flag)
		case other != "":
			return fmt.Errorf("port %s is given to both %s and %s: choose another for one of them", port, other, flag)
		}
		flagOf[port] = flag
	}
	for _, l := range listeners {
		if err := CheckPort(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

func localAddr(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// start starts the parts concurrently.
func (s *Stack) start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startDatabase(ctx) })
	group.Go(func() error { return s.startTemporal(ctx) })
	group.Go(func() (err error) {
		// The sandbox outlives this function and is stopped with the others.
		s.Sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Config{
			Dir: filepath.Join(s.Dir, "sandbox"), Log: s.Log,
			Endpoints: s.endpoint(), HTTPAddr: localAddr(s.SandboxPort), SMTPAddr: localAddr(s.SandboxSMTPPort),
		})
		return err
	})
	return group.Wait()
}

// startDatabase uses the database of DATABASE_URL or of a private server, and migrates it.
func (s *Stack) startDatabase(ctx context.Context) error {
	if url := s.Database; url != "" {
		fmt.Fprintln(s.Progress, "postgres  using DATABASE_URL")
		if _, err := process.ParseDSN("DATABASE_URL", url); err != nil {
			return err
		}
		s.dsn = url
	} else {
		fmt.Fprintln(s.Progress, "postgres  starting a private server")
		// A start is not interrupted; the server is stopped with the others.
		server, err := localpg.Start(context.WithoutCancel(ctx),
			localpg.Options{Dir: filepath.Join(s.Dir, "postgres"), Log: s.Log})
		if err != nil {
			return err
		}
		s.postgres = server
		if err := server.EnsureDatabase(ctx, "pawl"); err != nil {
			return err
		}
		s.dsn = server.DSN("pawl")
	}
	if err := schema.Migrate(ctx, s.dsn, s.Log); err != nil {
		return s.explain(err)
	}
	fmt.Fprintln(s.Progress, "postgres  ready")
	return nil
}

func (s *Stack) startTemporal(ctx context.Context) error {
	attributes := map[string]string{}
	for _, name := range process.SearchAttributes() {
		attributes[name] = "Keyword"
	}
	fmt.Fprintln(s.Progress, "temporal  starting")
	server, err := StartTemporal(ctx, TemporalOptions{
		Dir: filepath.Join(s.Dir, "temporal"), Port: s.TemporalPort, UIPort: s.TemporalUIPort,
		SearchAttributes: attributes, Progress: s.Progress,
	})
	if err != nil {
		return err
	}
	s.Temporal = server
	fmt.Fprintln(s.Progress, "temporal  ready")
	return nil
}

// explain returns an error of one sentence in two cases: the state belongs to a newer pawl, or the user's own
// database cannot be reached. The error does not contain the password.
func (s *Stack) explain(err error) error {
	if newer, is := errors.AsType[*schema.NewerError](err); is && s.postgres != nil {
		return fmt.Errorf("%s was made by another version of pawl: %w, or another --state", s.Dir, newer)
	}
	connect, is := errors.AsType[*pgconn.ConnectError](err)
	if s.postgres != nil || !is {
		return err
	}
	return fmt.Errorf("the database of DATABASE_URL cannot be reached: %s (unset DATABASE_URL to have one started)", output.FirstLine(connect.Unwrap()))
}

// Configure writes the configuration of the stack, for all other commands.
func (s *Stack) Configure() (file string, err error) {
	var sources []template.DevSource
	var relayed []string
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		p := s.Providers[name]
		if err := s.makeKeys(p.Name, p); err != nil {
			return "", err
		}
		if p.Name == "stripe" { // Stripe's events have flows and a separate part of the configuration
			continue
		}
		source := template.DevSource{Provider: p.Name, Options: p.Sample.Options}
		if p.Contract.Mode == "" {
			source.Mode = webhook.Test
		}
		sources, relayed = append(sources, source), append(relayed, p.Name)
	}
	if err := s.makeKeys("destination", standardwebhooks.Provider); err != nil {
		return "", err
	}
	day := "" // an empty value means 24 hours
	if s.Day != 24*time.Hour {
		day = output.ShortDuration(s.Day)
	}
	content, err := s.content(template.DevParams{
		Day:     day,
		Ingress: s.Ingress, Console: s.Console, Ops: s.Ops, WorkerOps: "127.0.0.1:0",
		WorkspacesURL: s.Sandbox.URL(), FinanceURL: s.Sandbox.URL(), SMTP: s.Sandbox.SMTPAddr(),
		TemporalUI: s.Temporal.UIURL(), EventsURL: s.Sandbox.URL() + "/events",
		RelayedURL: s.Sandbox.URL() + "/relayed", Relayed: strings.Join(relayed, ", "),
		StripeAPI: s.Sandbox.URL() + "/stripe", Sources: sources,
	})
	if err != nil {
		return "", err
	}
	files := map[string]string{
		"database.url": s.dsn + "\n",
		// The key has no mode, so the simulated Stripe returns objects of both modes, and the source accepts both.
		"secrets/stripe-api": "rk_dev\n",
		"temporal.toml":      fmt.Sprintf("# Written by `pawl dev`: how the Temporal SDK reaches the dev server.\n[profile.default]\naddress = %q\nnamespace = \"default\"\n", s.Temporal.Addr()),
		"pawl.yaml":          string(content),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("write %s: %w", name, err)
		}
	}
	return filepath.Join(s.Dir, "pawl.yaml"), nil
}

// endpoint returns the ingress as a webhook endpoint of the simulated Stripe.
func (s *Stack) endpoint() []json.RawMessage {
	object, err := json.Marshal(map[string]any{
		"id": "we_dev", "object": "webhook_endpoint", "url": "http://" + s.Ingress + "/hooks/stripe",
		"status": "enabled", "api_version": stripe.Version, "enabled_events": workflows.Types("stripe"),
		"livemode": false,
	})
	if err != nil {
		panic("dev: " + err.Error()) // encoding strings cannot fail
	}
	return []json.RawMessage{object}
}

// content returns the configuration of the stack: the dev configuration, with parts of the user's file.
func (s *Stack) content(p template.DevParams) ([]byte, error) {
	if s.Own == "" {
		return template.Dev(p), nil
	}
	own, err := os.ReadFile(s.Own)
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	content, err := config.MergeDev(template.Dev(p), s.Own, own, s.Real)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Own, err)
	}
	return content, nil
}

// makeKeys creates the secret of a source or destination in the file of this name under secrets/, unless it exists. A
// provider's private key is stored beside it, for `pawl send --key`.
func (s *Stack) makeKeys(name string, provider webhook.Provider) error {
	file := filepath.Join(s.Dir, "secrets", name)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := provider.Sample.NewKeys()
	if err != nil {
		return fmt.Errorf("make keys of %s: %w", name, err)
	}
	if keys.Pair() { // write this key first, because the public key is useless without it
		if err := os.WriteFile(file+".key", []byte(keys.Sign+"\n"), 0o600); err != nil {
			return fmt.Errorf("write private key: %w", err)
		}
	}
	if err := os.WriteFile(file, []byte(keys.Verify+"\n"), 0o600); err != nil {
		return fmt.Errorf("write signing secret: %w", err)
	}
	return nil
}

// Watch ends the stack if Temporal ends unexpectedly, because the other parts could then only wait.
func (s *Stack) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.Temporal.Done():
		return fmt.Errorf("the Temporal server ended by itself; its log is %s", s.Temporal.LogFile())
	}
}

// Stop ends the servers, Postgres last, and releases the state directory.
func (s *Stack) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	if s.Temporal != nil {
		errs = append(errs, s.Temporal.Stop(ctx))
	}
	if s.Sandbox != nil {
		errs = append(errs, s.Sandbox.Close())
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Stop(ctx))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
