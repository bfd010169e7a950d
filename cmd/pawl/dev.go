package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/devstack"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/timeline"
)

func devCommand(a *app) *cobra.Command {
	var o devstack.Options
	noDemo, base := false, 0
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
--forward-to), and effects reach your systems. FILE is only read: what runs is STATE/pawl.yaml.
Your systems and the sandbox have a state each, --real in ` + realState + `: an account that has its workspace in the one has none in the other.

A second pawl dev on one machine needs other ports and another state: --port-base 9000 --state .pawl-2.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("config") {
				o.Own, noDemo = a.configFile, true
			}
			if o.Real && !cmd.Flags().Changed("state") {
				o.State = realState
			}
			switch {
			case o.State == "":
				return usagef("--state is empty: name a directory, or leave the flag out for .pawl")
			case o.Day < time.Second || o.Day > 24*time.Hour:
				return usagef("--day: %s is not between 1s and 24h", o.Day)
			case o.Real && o.Own == "":
				return usagef("--real needs --config FILE: the sources and sinks are those of the file")
			}
			if err := basePorts(cmd.Flags(), base); err != nil {
				return err
			}
			return runDev(cmd.Context(), a, o, noDemo)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.State, "state", ".pawl", "`directory` that keeps everything; with --real "+realState)
	flags.IntVar(&base, "port-base", 0, "take seven ports from this `number` on, in place of those below")
	flags.StringVar(&o.Ingress, "ingress", "127.0.0.1:8080", "`address` that takes webhooks")
	flags.StringVar(&o.Console, "console", "127.0.0.1:8081",
		"`address` of the console: the operator's pages and the API")
	flags.StringVar(&o.Ops, "ops", "127.0.0.1:8082", "`address` of /livez, /readyz and /metrics")
	flags.IntVar(&o.TemporalPort, "temporal-port", 7233, "`port` of the Temporal server")
	flags.IntVar(&o.TemporalUIPort, "temporal-ui-port", 8233, "`port` of the Temporal UI")
	flags.IntVar(&o.SandboxPort, "sandbox-port", 8083, "`port` of the sandbox's endpoints")
	flags.IntVar(&o.SandboxSMTPPort, "sandbox-smtp-port", 8025, "`port` of the sandbox's mailbox")
	flags.BoolVar(&o.Real, "real", false, "with --config: the file's own sources and sinks instead of the sandbox")
	flags.DurationVar(&o.Day, "day", 24*time.Hour, "how long a `day` lasts for what the clock does (grace, reminders, planned ends), and for send --scenario")
	flags.BoolVar(&noDemo, "no-demo", false, "do not send an event at the start")
	return cmd
}

// realState keeps what a dev with --real has done: what the sandbox has taken would not be sent to one's own systems.
const realState = ".pawl-real"

// basePorts gives the listeners that no flag has placed the ports from base on.
func basePorts(flags *pflag.FlagSet, base int) error {
	if !flags.Changed("port-base") {
		return nil
	}
	listeners := []string{"ingress", "console", "ops", "sandbox-port", "sandbox-smtp-port", "temporal-port",
		"temporal-ui-port"}
	if base < 1 || base+len(listeners) > 1<<16 {
		return usagef("--port-base: write a number from 1 to %d", 1<<16-len(listeners))
	}
	for i, name := range listeners {
		if flags.Changed(name) {
			continue
		}
		place := strconv.Itoa(base + i)
		if !strings.HasSuffix(name, "-port") {
			place = net.JoinHostPort("127.0.0.1", place)
		}
		if err := flags.Set(name, place); err != nil {
			return err
		}
	}
	return nil
}

func runDev(ctx context.Context, a *app, o devstack.Options, noDemo bool) (err error) {
	begin := time.Now()
	o.Providers, o.Progress, o.Log = providers(), a.err, a.log
	o.Database, _ = a.env("DATABASE_URL")
	s, err := devstack.Start(ctx, o)
	defer func() { err = errors.Join(err, s.Stop()) }()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped while starting: that is no failure
	case err != nil:
		return err
	}
	if a.configFile, err = s.Configure(); err != nil {
		return err
	}
	cfg, err := a.config()
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
	group.Go(func() error { return a.runConsole(ctx, n) })
	group.Go(func() error { return s.Watch(ctx) })
	group.Go(func() (err error) {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
		return whenReady(ctx, a, s, n, begin, !noDemo)
	})
	return group.Wait()
}

// whenReady sends the demonstration, and says where everything is.
func whenReady(ctx context.Context, a *app, s *devstack.Stack, n *process.Node, begin time.Time, demo bool) error {
	var event *timeline.Event
	if demo {
		var err error
		event, err = runDemo(ctx, a, n, begin)
		if ctx.Err() != nil { // stopped meanwhile: that is no failure, and nothing is ready
			return nil
		}
		if err != nil {
			return err
		}
	}
	return announce(a, s, n.Config, begin, event)
}
