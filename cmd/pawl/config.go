package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// configResult is the output of `pawl config check --json`.
type configResult struct {
	OK       bool          `json:"ok"`
	Faults   config.Faults `json:"faults"`
	Warnings config.Faults `json:"warnings"`
}

func configCheck(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the configuration", Args: command.NoArgument,
		RunE: func(*cobra.Command, []string) error {
			result := configResult{Faults: config.Faults{}, Warnings: config.Faults{}}
			cfg, err := config.Check(a.ConfigFile, a.Env, providers())
			if err != nil && !errors.As(err, &result.Faults) {
				return err
			}
			if cfg != nil {
				result.Warnings = append(append(result.Warnings, cfg.Warnings...), command.Unrouted(cfg)...)
				if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
					result.Faults = append(result.Faults, config.Fault{Problem: err.Error()})
				}
			}
			result.OK = len(result.Faults) == 0
			if err := command.Emit(a, result, writeConfigResult); err != nil {
				return err
			}
			if !result.OK {
				return fmt.Errorf("%s has %s", a.ConfigFile, output.Plural(len(result.Faults), "fault"))
			}
			return nil
		},
	}
}

func writeConfigResult(a *command.App, r configResult) {
	for _, f := range r.Faults {
		fmt.Fprintln(a.Out, output.Clean(f.String()))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.Out, output.Clean("warning: "+w.String()))
	}
	switch {
	case !r.OK: // the error of the command contains the number of errors
	case len(r.Warnings) > 0:
		fmt.Fprintf(a.Out, "%s has no fault and %s\n", a.ConfigFile, output.Plural(len(r.Warnings), "warning"))
	default:
		fmt.Fprintf(a.Out, "%s is fine\n", a.ConfigFile)
	}
}
