package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/withheld"
)

// effects is the answer of effects show.
type effects struct {
	From     []withheld.From `json:"effects"`
	Withheld []withheld.Sum  `json:"withheld"`
}

func effectsShow(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the start of effects and the withheld effects", Args: command.NoArgument,
		Long: `Show the time from which events of each mode have effects, and the withheld effects by kind and amount. An event that
occurred earlier changes state but has no effects, even if it is delivered later, found by pawl events backfill, replayed or retried.

The first process that serves a mode stores this time. It is the time of the start, unless effects.from of the
configuration sets another time. pawl effects on and pawl effects off change it.`,
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) (*effects, error) {
		from, err := withheld.All(ctx, s.DB)
		if err != nil {
			return nil, err
		}
		sums, err := withheld.Sums(ctx, s.DB)
		return &effects{from, sums}, err
	}, func(a *command.App, e *effects) {
		if len(e.From) == 0 {
			fmt.Fprintln(a.Out, "no process has started yet: the first start stores effects.from of the configuration, or its own time")
			return
		}
		a.Tables(tables.Onsets(e.From), tables.Withheld(e.Withheld))
	})
}
