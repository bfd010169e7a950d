//go:build !nodev

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/timeline"
)

func runDev(ctx context.Context, a *command.App, o dev.Options, noDemo bool) (err error) {
	begin := time.Now()
	o.Providers, o.Progress, o.Log = providers(), a.Err, a.Log
	o.Database, _ = a.Env("DATABASE_URL")
	s, err := dev.Start(ctx, o)
	defer func() { err = errors.Join(err, s.Stop()) }()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // the user stopped pawl during the start, which is not a failure
	case err != nil:
		return err
	}
	cfg, err := configureDev(a, s)
	if err != nil {
		return err
	}
	a.ConfigFile = s.File()
	a.WarnOfFiles(cfg)
	announced, begun := false, begin
	started := func(ctx context.Context, n *process.Node) error {
		if announced {
			fmt.Fprintf(a.Err, "config    in use after %s\n", time.Since(begun).Round(10*time.Millisecond))
			return nil
		}
		var event *timeline.Event
		if !noDemo {
			var err error
			event, err = runDemo(ctx, a, n, begin)
			if ctx.Err() != nil { // the user stopped pawl during the demonstration, which is not a failure
				return nil
			}
			if err != nil {
				return err
			}
		}
		announced = true
		return announce(a, s, n.Config, begin, event)
	}
	for {
		cfg, err = runRoles(ctx, a, s, cfg, started)
		if cfg == nil || ctx.Err() != nil { // after Ctrl-C, a change of the file has no effect
			return err
		}
		begun = time.Now()
	}
}

// configureDev writes and loads the configuration of the stack.
func configureDev(a *command.App, s *dev.Stack) (cfg *config.Config, err error) {
	err = s.Configure(func(file string) error {
		of := *a
		of.ConfigFile = file
		cfg, err = of.Load()
		return err
	})
	return cfg, err
}

// runRoles runs the ingress, the worker and the console, and calls started when they are ready. It returns when ctx
// ends, after an error, or with the next configuration when the user's file has changed.
func runRoles(ctx context.Context, a *command.App, s *dev.Stack, cfg *config.Config,
	started func(context.Context, *process.Node) error) (next *config.Config, err error) {
	n, err := process.New(ctx, cfg, providers(), a.Log)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if err := n.CheckSchema(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	group.Go(func() error { return n.RunOps(ctx, process.Ingress) })
	group.Go(func() error { return runWorker(ctx, a, n) })
	group.Go(func() error { return n.RunIngress(ctx, ready) })
	group.Go(func() error { return runConsole(ctx, a, n) })
	group.Go(func() error { return s.Watch(ctx) })
	group.Go(func() error {
		select {
		case <-ready:
			return started(ctx, n)
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		if next = nextConfig(ctx, a, s); next != nil {
			stop()
		}
		return nil
	})
	err = group.Wait()
	if next != nil && err != nil { // a connection without a request can delay the end of a server
		a.Log.Warn("a part of pawl did not stop in time for the new configuration", "error", err)
		err = nil
	}
	return next, err
}

// nextConfig waits for a valid change of the user's file. It returns nil if ctx ends.
func nextConfig(ctx context.Context, a *command.App, s *dev.Stack) *config.Config {
	for s.Changed(ctx) {
		cfg, err := configureDev(a, s)
		if err == nil {
			return cfg
		}
		fmt.Fprintf(a.Err, "%s has changed and cannot be used; pawl continues with its previous content:\n%v\n"+
			"If another file was the cause, save %s again.\n", s.Own, err, s.Own)
	}
	return nil
}
