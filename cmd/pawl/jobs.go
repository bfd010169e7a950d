package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
)

func jobsList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the bulk jobs, the newest first", Args: noArgument}
	return list(a, cmd, listing[job.Job]{
		read: func(ctx context.Context, s *session, limit int) ([]job.Job, error) {
			return job.New(s.db).List(ctx, limit, "")
		},
		table: tables.Jobs, drops: []string{"MADE", "WHO", "REFUSED", "FAILED"},
	})
}

func jobsShow(a *app) *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a bulk job, and what came of its events", Args: oneID,
		Long: `Show a bulk job: how far it is, how the events stand now about which it has decided, and the events themselves, those
first that failed or were refused. done: the decision was taken. refused: it could not be taken, and nothing was
changed. failed: it was tried in vain.`,
	}
	oneOfFlag(cmd, &only, "result", "only events with this `result`: done, refused, failed, or open", "done",
		"refused", "failed", "open")
	limit := limitFlag(cmd, shownItems)
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (*operator.JobDetails, error) {
		return s.ShowJob(ctx, args[0], only, *limit)
	}, func(a *app, d *operator.JobDetails) { writeJob(a, d, time.Now()) })
}

// idle is how long nothing may have been done for a job that runs until its screen says so, beside what its rate asks.
const idle = time.Minute

func writeJob(a *app, d *operator.JobDetails, now time.Time) {
	a.Tables(tables.Job(d)...)
	if more := d.Items - len(d.List); more > 0 {
		fmt.Fprintf(a.out, "and %d more: use --limit and --result\n", more)
	}
	id := operator.ShellWord(d.ID)
	switch quiet := now.Sub(d.ChangedAt); {
	case d.State == job.Paused:
		fmt.Fprintf(a.out, "\nlet it go on with: %s\n", a.commandLine("jobs resume "+id+" --why REASON"))
	case d.State == job.Running && quiet > idle+time.Duration(float64(time.Second)/d.Rate):
		fmt.Fprintf(a.out, "\nnothing was done for %s: does a worker run, and is Temporal well? Where its run was ended there, this starts it: %s\n",
			output.Age(d.ChangedAt, now), a.commandLine("jobs resume "+id+" --why REASON"))
	case d.State == job.Running:
		fmt.Fprintf(a.out, "\nhold it with: %s\n", a.commandLine("jobs pause "+id+" --why REASON"))
	}
}
