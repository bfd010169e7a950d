package cli

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
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/importer"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/imports"
	"github.com/pawlhq/pawl/schema/quota"
)

func importStripe(a *command.App) *cobra.Command {
	var source, who, why string
	cmd := &cobra.Command{
		Use: "stripe", Short: "Import customers, subscriptions and open invoices from Stripe", Args: command.NoArgument,
		Long: `Import the customers, subscriptions and open invoices that Stripe has, with the api_key of the source. The key needs only
read permissions. The objects become facts, so that pawl has the state of each account as if it had received all events.
The import has no effects: it changes no workspace, books no entry and sends no email.

Start ingress and worker before the import, so that no event is missed in between. An event that is delivered during the
import has effects if it occurred after the start of effects: see pawl effects.

The import skips ended subscriptions and paid invoices, because they do not affect the future. pawl reconcile shows and
stores the history of one account at Stripe.

If an import is interrupted, run the command again: it continues. A new import after a complete one reads everything
again. The audit trail records who ran the import and why.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStripe(cmd.Context(), a, source, func(ctx context.Context, s *command.Session,
				name string) error {
				by, err := actorOf(a, who)
				if err != nil {
					return err
				}
				return runImport(ctx, s, name, by, why)
			})
		},
	}
	cmd.Flags().StringVar(&who, "as", "", asUsage)
	cmd.Flags().StringVar(&why, "reason", "import the existing objects of Stripe", "the reason, for the audit trail")
	cmd.Flags().StringVar(&source, "source", "",
		"`name` of the source, required if several sources have an api_key")
	return cmd
}

// pickStripe returns the named source, or the only source with an API key if no name is given.
func pickStripe(cfg *config.Config, source string) (string, error) {
	var able []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if cfg.Sources[name].APIKey.Value() != "" {
			able = append(able, name)
		}
	}
	switch {
	case source != "" && !slices.Contains(able, source):
		return "", fmt.Errorf("source %q has no api_key: set sources.%s.api_key to a restricted key with read permissions", source, source)
	case source != "":
		return source, nil
	case len(able) == 0:
		return "", errors.New("no source has an api_key: set api_key: env:NAME of a source with provider stripe to a restricted key with read permissions")
	case len(able) > 1:
		return "", command.Usagef("several sources have an api_key; choose one with --source: %s",
			strings.Join(able, ", "))
	}
	return able[0], nil
}

// patience bounds the retries of a request that the provider cannot answer to some minutes.
var patience = stripe.Patience{Tries: 10, First: time.Second}

func runImport(ctx context.Context, s *command.Session, name, who, why string) error {
	source := s.Config.Sources[name]
	api, err := process.StripeAPI(name, source, quota.New(s.DB))
	if err != nil {
		return err
	}
	if _, _, err := billing.Propose(ctx, s.DB, s.Policy, "pawl import"); err != nil {
		return err
	}
	connected, err := process.Connected(ctx, source, s.DB)
	if err != nil {
		return err
	}
	result, err := importer.Run(ctx, importer.Config{
		Pool: s.DB, API: api.With(patience), Source: name, Mode: source.Mode, Connected: connected,
		Policy: s.Policy, EffectsFrom: s.Config.Effects.From,
		Began: func(ctx context.Context, i imports.Import) error {
			return s.Audit.Append(ctx, audit.Action{
				RequestID: "import/" + i.ID, Actor: who, Action: "import", Target: "source " + name, Reason: why,
				After: map[string]any{"import": i.ID},
			})
		},
		OnPage: func(list string, read int) { fmt.Fprintf(s.Err, "%s: %d read\n", output.Clean(list), read) },
	})
	if err != nil {
		return fmt.Errorf("%w; the objects read so far are stored: run the same command again to continue", err)
	}
	return command.Emit(s.App, result, writeImport)
}

func writeImport(a *command.App, result importer.Result) {
	rows := output.Table{}
	for _, list := range slices.Sorted(maps.Keys(result.Read)) {
		rows = append(rows, []any{list, fmt.Sprint(result.Read[list])})
	}
	for _, e := range result.Effects {
		rows = append(rows, []any{"effects (" + e.Mode + ")", tables.EffectsFrom(e)})
	}
	for _, id := range slices.Sorted(maps.Keys(result.LeftOut)) {
		rows = append(rows, []any{"left out", output.Clean(id) + output.WithReason(output.Clean(result.LeftOut[id]))})
	}
	a.Table(rows)
	fmt.Fprintln(a.Out, "nothing was published and no workspace was changed. To list the accounts that need it: pawl accounts announce --all --provision --dry-run")
}
