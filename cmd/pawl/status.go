package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

func status(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show parked events, tasks, waiting work and sinks that are out", Args: noArgument,
		Long: `Show the state of pawl on one screen: parked events by cause, with age and money; decisions that wait for a second person;
tasks by kind; work that continues without a person; active notifications; sinks; running bulk jobs; everything that is
paused, refused or not accepted by a subscriber; and running processes. The output ends with commands for more detail.

The money of an object counts once. The money of an event that was parked before it was parsed is unknown.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) (*report.Status, error) {
		return report.ReadStatus(ctx, s.cfg, s.Operator)
	}, func(a *app, r *report.Status) { writeStatus(a, r, time.Now()) })
}

func writeStatus(a *app, r *report.Status, now time.Time) {
	if len(r.Parked) == 0 {
		fmt.Fprintln(a.out, "nothing is parked: no event waits for a person")
	}
	if r.Oldest != nil {
		fmt.Fprintf(a.out, "the oldest open event: %s (%s), %s%s, received %s ago\n",
			output.Clean(r.Oldest.EventID), output.Clean(r.Oldest.Type), r.Oldest.Status,
			output.Because(output.Clean(r.Oldest.ReasonCode)),
			output.Age(r.Oldest.ReceivedAt, now))
	}
	for _, rows := range tables.Status(r, now) {
		if len(rows) == 1 {
			continue // a heading alone
		}
		fmt.Fprintln(a.out)
		a.List(rows)
	}
	if commands := a.statusCommands(r); len(commands) > 1 {
		fmt.Fprintln(a.out)
		a.Table(commands)
	}
}

// statusCommands returns commands that show the details of a report, each with a comment.
func (a *app) statusCommands(r *report.Status) [][]string {
	commands := [][]string{{"Continue with:"}}
	add := func(command, shows string) {
		commands = append(commands, []string{"  " + a.commandLine(command), "# " + shows})
	}
	filter := func(c timeline.Cause) string {
		if c.ReasonCode == "" {
			return " --status " + c.Status
		}
		return " --status " + c.Status + " --reason " + c.ReasonCode
	}
	for _, c := range r.Parked {
		add("events list"+filter(c), output.Plural(c.Events, "event"))
		if c.Status == string(receipt.Dead) && c.Events > 1 {
			add("events retry"+filter(c)+" --dry-run", "preview a retry of all of them")
		}
	}
	for _, t := range r.Tasks {
		add("tasks list --kind "+t.Kind+" --mode "+t.Mode, output.Plural(t.Tasks, "task"))
	}
	for _, j := range r.Jobs {
		add("jobs show "+operator.ShellWord(j.ID), "the "+j.Action+" of "+output.Plural(j.Items, j.Noun()))
	}
	for _, c := range r.Waiting {
		if c.Status == string(receipt.Retrying) {
			add("events list"+filter(c), output.Plural(c.Events, "event"))
		}
	}
	for _, c := range r.Concerns {
		add(c.Command, c.What+": "+c.Name)
	}
	if r.Oldest != nil {
		add("events show "+operator.ShellWord(r.Oldest.ID), "details of the oldest event")
	}
	return commands
}

// commandLine returns a command with the --config of this call.
func (a *app) commandLine(command string) string {
	if a.configFile == defaultConfig {
		return "pawl " + command
	}
	return "pawl --config " + operator.ShellWord(a.configFile) + " " + command
}
