package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// configResult is what `pawl config check --json` writes.
type configResult struct {
	OK       bool          `json:"ok"`
	Faults   config.Faults `json:"faults"`
	Warnings config.Faults `json:"warnings"`
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the configuration", Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			result := configResult{Faults: config.Faults{}, Warnings: config.Faults{}}
			cfg, err := config.Check(a.configFile, a.env, providers())
			if err != nil && !errors.As(err, &result.Faults) {
				return err
			}
			if cfg != nil {
				result.Warnings = append(result.Warnings, cfg.Warnings...)
				if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
					result.Faults = append(result.Faults, config.Fault{Problem: err.Error()})
				}
			}
			result.OK = len(result.Faults) == 0
			return a.writeConfigResult(result)
		},
	}
}

func (a *app) writeConfigResult(result configResult) error {
	if a.json {
		if err := a.writeJSON(result); err != nil {
			return err
		}
	} else {
		for _, f := range result.Faults {
			fmt.Fprintln(a.out, clean(f.String()))
		}
		for _, w := range result.Warnings {
			fmt.Fprintln(a.out, clean("warning: "+w.String()))
		}
	}
	if !result.OK {
		return fmt.Errorf("%s has %s", a.configFile, plural(len(result.Faults), "fault"))
	}
	switch {
	case a.json:
	case len(result.Warnings) > 0:
		fmt.Fprintf(a.out, "%s has no fault and %s\n", a.configFile, plural(len(result.Warnings), "warning"))
	default:
		fmt.Fprintf(a.out, "%s is fine\n", a.configFile)
	}
	return nil
}
