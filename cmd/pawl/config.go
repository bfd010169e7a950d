package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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

func configCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the configuration", Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			result := configResult{Faults: config.Faults{}, Warnings: config.Faults{}}
			cfg, err := config.Check(a.configFile, a.env, providers())
			if err != nil && !errors.As(err, &result.Faults) {
				return err
			}
			if cfg != nil {
				result.Warnings = append(append(result.Warnings, cfg.Warnings...), unrouted(cfg)...)
				if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
					result.Faults = append(result.Faults, config.Fault{Problem: err.Error()})
				}
			}
			result.OK = len(result.Faults) == 0
			if err := emit(a, result, writeConfigResult); err != nil {
				return err
			}
			if !result.OK {
				return fmt.Errorf("%s has %s", a.configFile, output.Plural(len(result.Faults), "fault"))
			}
			return nil
		},
	}
}

func writeConfigResult(a *app, r configResult) {
	for _, f := range r.Faults {
		fmt.Fprintln(a.out, output.Clean(f.String()))
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.out, output.Clean("warning: "+w.String()))
	}
	switch {
	case !r.OK: // the command's error has the count
	case len(r.Warnings) > 0:
		fmt.Fprintf(a.out, "%s has no fault and %s\n", a.configFile, output.Plural(len(r.Warnings), "warning"))
	default:
		fmt.Fprintf(a.out, "%s is fine\n", a.configFile)
	}
}
