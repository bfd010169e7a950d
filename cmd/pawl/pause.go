package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	runstore "github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// pauseReport is what pawl pause and pawl resume have done.
type pauseReport struct {
	Kind pause.Kind `json:"kind"`
	// Names are those that were changed: of a sink that is per mode, two.
	Names  []string `json:"names"`
	Paused bool     `json:"paused"`
	// Waiting counts what waits: the runs of a sink, the events of a source.
	Waiting int  `json:"waiting"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// pauses is pawl pause, or pawl resume.
func (a *app) pauses(action, short, long string) *cobra.Command {
	return group(action, short,
		a.pauseOne(action, "sink", long+`
NAME is what pawl sinks shows. Of a sink that is per mode, "finance" stands for both, "finance:live" for one.`),
		a.pauseOne(action, "consumer", long+`
NAME is the consumer's in the configuration.`),
		a.pauseOne(action, "source", long+`
NAME is the source's in the configuration.`),
	)
}

const (
	pauseLong = `What is paused stays so until pawl resume, whatever is started anew. All processes heed it within seconds. What is
under way ends.

The effects of a paused sink, or consumer, wait on a timer that names it: they spend no tries and none of their time.
Of a paused source, deliveries are answered and kept as ever; what they ask for is not begun, and neither is what is
due by the clock.`
	resumeLong = `What has waited is let in bit by bit, eighty a second.`
)

func (a *app) pauseOne(action, what, long string) *cobra.Command {
	var d operator.Decided
	var dryRun bool
	short := map[string]string{"pause": "Let what a " + what + " is for wait", "resume": "Let what has waited for a " + what + " go on"}[action]
	cmd := &cobra.Command{
		Use: what + " NAME --why REASON", Short: short, Long: short + ".\n" + long, Args: oneID(action + " " + what),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Who = a.who(d.Who); !dryRun {
				if err := accountable(action+" "+what, d.Who, d.Why); err != nil {
					return err
				}
			}
			kind, name := pause.Sink, args[0]
			switch what {
			case "source":
				kind = pause.Source
			case "consumer":
				name = workflows.SinkConsumers + ":" + name
			}
			report := pauseReport{Kind: kind, Paused: action == "pause", DryRun: dryRun}
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				p := &operator.Pauser{Pauses: pause.New(db), Audit: audit.New(db, a.log), Names: pausable(cfg, what)}
				do := p.Pause
				if action == "resume" {
					do = p.Resume
				}
				if dryRun {
					report.Names, err = p.Find(kind, name)
				} else {
					report.Names, err = do(ctx, kind, name, d)
				}
				if err != nil {
					return err
				}
				report.Waiting, err = waitingFor(ctx, db, kind, report.Names)
				return err
			})
			if err != nil {
				return err
			}
			return a.writePause(report)
		},
	}
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", "why, for the audit trail and for whoever finds it waiting (required)")
	cmd.Flags().StringVar(&d.RequestID, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is meant and how much waits, and change nothing")
	return cmd
}

// pausable lists the names of what can be paused, of one kind as the command line has it.
func pausable(cfg *config.Config, what string) map[pause.Kind][]string {
	names := map[pause.Kind][]string{pause.Source: slices.Sorted(maps.Keys(cfg.Sources))}
	for _, s := range cfg.Served() {
		if consumer := strings.HasPrefix(s.Name, workflows.SinkConsumers+":"); consumer == (what == "consumer") || what == "sink" {
			names[pause.Sink] = append(names[pause.Sink], s.Name)
		}
	}
	return names
}

func waitingFor(ctx context.Context, db *pgxpool.Pool, kind pause.Kind, names []string) (waiting int, err error) {
	receipts, runs := receipt.NewStore(db, receipt.Options{}), runstore.NewStore(db, receipt.Options{})
	defer receipts.Close()
	defer runs.Close()
	count := runs.SinkWaiters
	if kind == pause.Source {
		count = receipts.SourceWaiters
	}
	counts, err := count(ctx)
	for _, name := range names {
		waiting += counts[name]
	}
	return waiting, err
}

func (a *app) writePause(r pauseReport) error {
	if a.json {
		return a.writeJSON(r)
	}
	unit := "run"
	if r.Kind == pause.Source {
		unit = "event"
	}
	says := map[[2]bool]string{
		{true, false}: "is paused", {true, true}: "would be paused", {false, false}: "goes on", {false, true}: "would go on",
	}[[2]bool{r.Paused, r.DryRun}]
	for _, name := range r.Names {
		fmt.Fprintf(a.out, "%s %s %s\n", r.Kind, clean(name), says)
	}
	verb := "waits"
	if r.Waiting != 1 {
		verb = "wait"
	}
	_, err := fmt.Fprintf(a.out, "%s %s now\n", plural(r.Waiting, unit), verb)
	return err
}
