package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
)

func jobsShow(a *command.App) *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a bulk job and the result of each event", Args: command.OneID,
		Long: `Show a bulk job: its progress, the current status of the processed events, and the events. Failed and refused events come
first. done: the decision was executed. refused: the decision was not allowed and changed nothing. failed: every attempt
failed.`,
	}
	command.OneOfFlag(cmd, &only, "result", "only events with this `result`: done, refused, failed, or open", "done",
		"refused", "failed", "open")
	limit := command.LimitFlag(cmd, shownItems)
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) (*jobs.Details, error) {
		return jobs.Show(ctx, s.Operator, args[0], only, *limit)
	}, func(a *command.App, d *jobs.Details) { writeJob(a, d, time.Now()) })
}

// idle is how long a running job may make no progress, in addition to the interval of its rate, before the output
// reports it.
const idle = time.Minute

func writeJob(a *command.App, d *jobs.Details, now time.Time) {
	a.Tables(tables.Job(d)...)
	if more := d.Items - len(d.List); more > 0 {
		fmt.Fprintf(a.Out, "and %d more: use --limit and --result\n", more)
	}
	id := decide.ShellWord(d.ID)
	switch quiet := now.Sub(d.ChangedAt); {
	case d.State == job.Paused:
		fmt.Fprintf(a.Out, "\nresume it with: %s\n", a.CommandLine("jobs resume "+id+" --reason REASON"))
	case d.State == job.Running && quiet > idle+time.Duration(float64(time.Second)/d.Rate):
		fmt.Fprintf(a.Out, "\nno progress for %s: check that a worker runs and that Temporal is healthy. If its run was ended in Temporal, start it again with: %s\n",
			output.Age(d.ChangedAt, now), a.CommandLine("jobs resume "+id+" --reason REASON"))
	case d.State == job.Running:
		fmt.Fprintf(a.Out, "\npause it with: %s\n", a.CommandLine("jobs pause "+id+" --reason REASON"))
	}
}
