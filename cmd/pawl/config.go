package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// configResult is what `pawl config check --json` writes.
type configResult struct {
	OK       bool          `json:"ok"`
	Faults   config.Faults `json:"faults"`
	Warnings config.Faults `json:"warnings"`
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the configuration", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			result := configResult{Faults: config.Faults{}, Warnings: config.Faults{}}
			cfg, err := config.Load(a.configFile, a.env, providerNames()...)
			if err != nil && !errors.As(err, &result.Faults) {
				return err
			}
			if cfg != nil {
				result.Faults = append(result.Faults, sourceFaults(cfg)...)
				result.Warnings = append(result.Warnings, cfg.Warnings...)
			}
			result.OK = len(result.Faults) == 0
			return a.writeConfigResult(result)
		},
	}
}

// sourceFaults asks each provider whether its source would start: keys that cannot be decoded,
// options that are missing.
func sourceFaults(cfg *config.Config) config.Faults {
	var faults config.Faults
	all := providers()
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if _, err := all[cfg.Sources[name].Provider].New(cfg.Settings(name)); err != nil {
			faults = append(faults, config.Fault{Key: "sources." + name, Problem: err.Error()})
		}
	}
	return faults
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
	if !a.json {
		fmt.Fprintf(a.out, "%s is fine\n", a.configFile)
	}
	return nil
}
