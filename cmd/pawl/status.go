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
		Use: "status", Short: "Show what is parked and why, what waits, and which sinks are out", Args: noArgument,
		Long: `Show how pawl stands, on one screen: the parked events by cause, with age and money; the decisions that wait for a second
person; people's tasks by kind; the work that goes on by itself; what people are told by notify; each sink; the bulk jobs that are under way; everything that is
paused, refused, or not taken by a subscriber, and whether anybody works. It ends with the commands that go on from there. Money is counted once for each
object; of an event that was parked before it was read it is not known.`,
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
		fmt.Fprintf(a.out, "the oldest that is open: %s (%s), %s%s, received %s ago\n",
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

// statusCommands are the commands that lead on from what a report has, with what each shows.
func (a *app) statusCommands(r *report.Status) [][]string {
	commands := [][]string{{"Go on with:"}}
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
			add("events retry"+filter(c)+" --dry-run", "what a retry of all of them would do")
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
		add("events show "+operator.ShellWord(r.Oldest.ID), "all about the oldest")
	}
	return commands
}

// commandLine is a call of the program with the configuration of this one.
func (a *app) commandLine(command string) string {
	if a.configFile == defaultConfig {
		return "pawl " + command
	}
	return "pawl --config " + operator.ShellWord(a.configFile) + " " + command
}
