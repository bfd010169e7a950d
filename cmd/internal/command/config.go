package command

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Load loads the configuration file and logs its warnings, except those about the modes of secret files: see
// [App.WarnOfFiles].
func (a *App) Load() (*config.Config, error) { return a.loadWith(config.Load) }

// LoadToAsk is [App.Load] for a command that only reads the database. Such a command needs only the database URL.
// LoadToAsk logs a warning for each other secret that cannot be read.
func (a *App) LoadToAsk() (*config.Config, error) { return a.loadWith(config.LoadToAsk) }

// LoadSecretless is [App.Load] for a command that uses no secret of the file, such as a command that only connects to
// Temporal.
func (a *App) LoadSecretless() (*config.Config, error) { return a.loadWith(config.LoadSecretless) }

func (a *App) loadWith(load func(string, func(string) (string, bool), map[string]webhook.Provider) (*config.Config,
	error)) (*config.Config, error) {
	cfg, err := load(a.ConfigFile, a.Env, a.Providers)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return nil, fmt.Errorf("%s has %s:\n%w", a.ConfigFile, output.Plural(len(faults), "fault"), faults)
	}
	if err != nil {
		return nil, err
	}
	cfg.Warnings = append(cfg.Warnings, Unrouted(cfg)...)
	a.warn(cfg, false)
	return cfg, nil
}

// WarnOfFiles logs the secret files that other users can read. Only long-running processes call it, because the
// warnings would hide the result of a command.
func (a *App) WarnOfFiles(cfg *config.Config) { a.warn(cfg, true) }

// warn logs either the warnings about file modes or all other warnings.
func (a *App) warn(cfg *config.Config, fileModes bool) {
	for _, w := range cfg.Warnings {
		if w.FileMode == fileModes {
			a.Log.Warn("configuration", "key", w.Key, "problem", w.Problem, "fix", w.Fix)
		}
	}
}

// Unrouted returns a warning for each source without a flow or a destination for its events.
func Unrouted(cfg *config.Config) (warnings config.Faults) {
	for _, name := range condition.WithoutDestination(cfg) {
		warnings = append(warnings, config.Fault{Key: "sources." + name,
			Problem: "pawl ignores all events of this source: the provider has no flow and the source has no destination",
			Fix:     "add it to destinations.NAME.sources, or remove it"})
	}
	return warnings
}
