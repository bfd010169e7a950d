package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/localpg/keeper"
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
	own      ownFile
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
	// check the file first, because a start takes a while
	if _, err := s.readOwn(); err != nil {
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
