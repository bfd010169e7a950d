package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/namespace"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// setupResult is the output of `pawl temporal setup --json`.
type setupResult struct {
	Namespace string           `json:"namespace"`
	DryRun    bool             `json:"dry_run"`
	Steps     []namespace.Step `json:"steps"`
}

func temporalSetup(a *command.App) *cobra.Command {
	var s namespace.Setup
	days := 0
	cmd := &cobra.Command{
		Use: "setup", Short: "Create the namespace and the search attributes of pawl's runs", Args: command.NoArgument,
		Long: `Create the Temporal namespace of the configuration and the search attributes of pawl's runs. The command uses the
connection of the configuration: temporal.config_file and the TEMPORAL_* variables, with TLS and API key. It needs no
secret of the configuration and no database. You can run it again: it changes nothing that exists. The retention of an
existing namespace changes only if you pass --retention.

Temporal Cloud permits only its administrators to create namespaces and search attributes. The error then lists the
commands for them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 1 || days > 3650 {
				return command.Usagef("--retention: write a number of days from 1 to 3650")
			}
			s.Retention, s.Update = time.Duration(days)*24*time.Hour, cmd.Flags().Changed("retention")
			return runTemporalSetup(cmd, a, s)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&days, "retention", 30, "how many `days` Temporal keeps ended runs; you can inspect and reset a run until then")
	flags.BoolVar(&s.DryRun, "dry-run", false, "show what would happen and change nothing")
	flags.DurationVar(&s.Wait, "wait", 30*time.Second, "how long to wait for a server that does not respond yet")
	return cmd
}

func runTemporalSetup(cmd *cobra.Command, a *command.App, s namespace.Setup) error {
	cfg, err := a.LoadSecretless()
	if err != nil {
		return err
	}
	if s.Name, err = cfg.Temporal.Namespace(); err != nil {
		return err
	}
	if s.Client, err = process.DialTemporal(cfg, a.Log, nil, nil); err != nil {
		return err
	}
	defer s.Client.Close()
	shown := ""
	s.Waiting = func(err error) {
		if reason := condition.TemporalSays(err); reason != shown {
			shown = reason
			fmt.Fprintf(a.Err, "waiting for Temporal: %s\n", output.Clean(reason))
		}
	}
	s.Attributes = process.SearchAttributes()
	steps, err := s.Run(cmd.Context())
	if err != nil {
		return err
	}
	return command.Emit(a, setupResult{Namespace: s.Name, DryRun: s.DryRun, Steps: steps}, writeSetup)
}

func writeSetup(a *command.App, r setupResult) {
	rows := output.Table{}
	for _, step := range r.Steps {
		rows = append(rows, []any{step.Outcome, step.What})
	}
	a.Table(rows)
}
