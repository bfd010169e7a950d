package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/receipt"
)

func status(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show the current problems, the waiting work and the sinks", Args: command.NoArgument,
		Long: `Show the state of pawl on one screen: the current problems with severity, age and money, the most severe first; decisions
that wait for a second person; work that continues without a person; sinks; running bulk jobs; and the size and growth
of the database, with the last run of retention. The output ends with the next command for each problem.

A problem with severity page or ticket is notified if notify.sinks is configured.

The money of an object counts once. The money of an event that was parked before it was parsed is unknown.`,
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) (*report.Status, error) {
		return report.ReadStatus(ctx, s.Config, s.Operator)
	}, func(a *command.App, r *report.Status) { writeStatus(a, r, time.Now()) })
}

func writeStatus(a *command.App, r *report.Status, now time.Time) {
	if len(r.Conditions) == 0 {
		fmt.Fprintln(a.Out, "no problems: no event and no task waits for a person")
	}
	if r.Oldest != nil {
		fmt.Fprintf(a.Out, "the oldest open event: %s (%s), %s%s, received %s ago\n",
			output.Clean(r.Oldest.EventID), output.Clean(r.Oldest.Type), r.Oldest.Status,
			output.WithReason(output.Clean(r.Oldest.ReasonCode)),
			output.Age(r.Oldest.ReceivedAt, now))
	}
	for _, rows := range tables.Status(r, now) {
		if len(rows) == 1 {
			continue // a heading alone
		}
		fmt.Fprintln(a.Out)
		a.List(rows)
	}
	if commands := statusCommands(a, r); len(commands) > 1 {
		fmt.Fprintln(a.Out)
		a.Table(commands)
	}
}

// statusCommands returns commands that show the details of a report, each with a comment.
func statusCommands(a *command.App, r *report.Status) output.Table {
	commands := output.Table{{"Continue with:"}}
	seen := map[string]bool{}
	add := func(command, shows string) {
		if !seen[command] {
			commands = append(commands, []any{"  " + a.CommandLine(command), "# " + output.Clean(shows)})
		}
		seen[command] = true
	}
	for _, c := range r.Conditions {
		add(c.Command, c.Name)
		if c.Labels["status"] == string(receipt.Dead) && c.Count > 1 {
			filter := strings.TrimPrefix(c.Command, "events list")
			add("events retry"+filter+" --dry-run", "preview a retry of all of them")
		}
	}
	for _, j := range r.Jobs {
		add("jobs show "+decide.ShellWord(j.ID), "the "+j.Action+" of "+output.Plural(j.Items, j.Noun()))
	}
	for _, c := range r.Waiting {
		if c.Status == string(receipt.Retrying) {
			add("events list --status "+c.Status+" --reason-code "+decide.ShellWord(c.ReasonCode),
				output.Plural(c.Events, "event"))
		}
	}
	if r.Oldest != nil {
		add("events show "+decide.ShellWord(r.Oldest.ID), "details of the oldest event")
	}
	return commands
}
