package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/importer"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/imports"
	"github.com/pawlhq/pawl/schema/quota"
)

func importStripe(a *app) *cobra.Command {
	var source, who, why string
	cmd := &cobra.Command{
		Use: "stripe", Short: "Read the customers, subscriptions and open invoices that Stripe holds", Args: noArgument,
		Long: `Read the customers, subscriptions and open invoices that Stripe holds, with the source's api_key, which need only
read. They become facts: afterwards pawl knows who has what, as if it had always been there. Nothing follows from
them: no workspace is changed, nothing is booked and nobody is written to.

The first import of a mode sets when effects began, in the database: what occurred before is folded when it is
delivered, and nothing follows from it either. Start ingress and worker before the import, so that nothing is missed
between the two.

Subscriptions that have ended and invoices that are paid are not read: they say nothing about what is to come. What an
account has had at Stripe is shown, and kept, by pawl reconcile.

An import that is broken off goes on where it was. A later one reads everything anew, and leaves the time as it is. Who
and why go into the audit trail.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStripe(cmd.Context(), a, source, func(ctx context.Context, s *session, name string) error {
				return runImport(ctx, s, name, a.who(who), why)
			})
		},
	}
	cmd.Flags().StringVar(&who, "who", "", whoUsage)
	cmd.Flags().StringVar(&why, "why", "to know what Stripe holds already", "why, for the audit trail")
	cmd.Flags().StringVar(&source, "source", "",
		"`name` of the source, where there are several of Stripe's with an api_key")
	return cmd
}

// pickStripe returns the source that is meant, or the only one that can be read with.
func pickStripe(cfg *config.Config, source string) (string, error) {
	var able []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if cfg.Sources[name].APIKey.Value() != "" {
			able = append(able, name)
		}
	}
	switch {
	case source != "" && !slices.Contains(able, source):
		return "", fmt.Errorf("source %q has no api_key: give it a restricted key that may read, sources.%s.api_key", source, source)
	case source != "":
		return source, nil
	case len(able) == 0:
		return "", errors.New("no source has an api_key: give one of provider stripe a restricted key that may read, as api_key: env:NAME")
	case len(able) > 1:
		return "", usagef("several sources have an api_key; say which with --source: %s", strings.Join(able, ", "))
	}
	return able[0], nil
}

// patience is how often a request is tried that the provider cannot answer for now: some minutes.
var patience = stripe.Patience{Tries: 10, First: time.Second}

func runImport(ctx context.Context, s *session, name, who, why string) error {
	source := s.cfg.Sources[name]
	api, err := process.StripeAPI(name, source, quota.New(s.db))
	if err != nil {
		return err
	}
	if _, _, err := billing.Propose(ctx, s.db, s.Policy, "pawl import"); err != nil {
		return err
	}
	connected, err := process.Connected(ctx, source, s.db)
	if err != nil {
		return err
	}
	result, err := importer.Run(ctx, importer.Config{
		Pool: s.db, API: api.With(patience), Source: name, Mode: source.Mode, Connected: connected,
		Policy: s.Policy,
		Began: func(ctx context.Context, i imports.Import) error {
			return s.Audit.Append(ctx, audit.Action{
				RequestID: "import/" + i.ID, Actor: who, Action: "import", Target: "source " + name, Reason: why,
				After: map[string]any{"import": i.ID, "effects_from": i.EffectsFrom},
			})
		},
		Told: func(list string, read int) { fmt.Fprintf(s.err, "%s: %d read\n", output.Clean(list), read) },
	})
	if err != nil {
		return fmt.Errorf("%w; what was read is kept: run the same command again to go on", err)
	}
	return emit(s.app, result, writeImport)
}

func writeImport(a *app, result importer.Result) {
	rows := [][]string{}
	for _, list := range slices.Sorted(maps.Keys(result.Read)) {
		rows = append(rows, []string{list, fmt.Sprint(result.Read[list])})
	}
	for _, mode := range slices.Sorted(maps.Keys(result.EffectsFrom)) {
		rows = append(rows, []string{"effects from (" + mode + ")", output.Time(result.EffectsFrom[mode])})
	}
	for _, id := range slices.Sorted(maps.Keys(result.LeftOut)) {
		rows = append(rows, []string{"left out", output.Clean(id) + output.Because(output.Clean(result.LeftOut[id]))})
	}
	a.Table(rows)
	fmt.Fprintln(a.out, "nobody is told, and no workspace has changed: pawl accounts announce --all --provision --dry-run shows what is to do")
}
