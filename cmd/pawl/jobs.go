package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
)

func (a *app) jobsList() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the bulk jobs, the newest first", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			var found []job.Job
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				found, err = job.New(db).List(ctx, oneMore(limit))
				return err
			})
			if err != nil {
				return err
			}
			found = newest(a, found, limit)
			if a.json {
				return a.writeJSON(found)
			}
			return table(a.out, jobRows(found))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most")
	return cmd
}

func jobRows(jobs []job.Job) [][]string {
	rows := [][]string{{"JOB", "ACTION", "STATE", "EVENTS", "DONE", "REFUSED", "FAILED", "LEFT", "MADE", "WHO", "WHY"}}
	for i := range jobs {
		j := &jobs[i]
		rows = append(rows, []string{j.ID, j.Action, string(j.State), strconv.Itoa(j.Items), strconv.Itoa(j.Done), strconv.Itoa(j.Refused),
			strconv.Itoa(j.Failed), strconv.Itoa(j.Left()), clock(j.CreatedAt), j.Who, j.Why})
	}
	return rows
}

func (a *app) jobsShow() *cobra.Command {
	var only string
	var limit int
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a bulk job, and what came of its events", Args: oneID("jobs show"),
		Long: `Show a bulk job: how far it is, how the events stand now about which it has decided, and the events themselves, those
first that failed or were refused. done: the decision was taken. refused: it could not be taken, and nothing was
changed. failed: it was tried in vain.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			results := append(slices.Clone(job.Results), "open")
			if only != "" && !slices.Contains(results, job.Result(only)) {
				return usagef("--result: %q is no result: use done, refused, failed or open", only)
			}
			if limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			var shown *operator.JobDetails
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				shown, err = (&operator.Jobs{Store: job.New(db)}).Show(ctx, args[0], only, limit)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(shown)
			}
			return a.writeJob(shown, time.Now())
		},
	}
	cmd.Flags().StringVar(&only, "result", "", "only events with this `result`: done, refused, failed, or open")
	cmd.Flags().IntVar(&limit, "limit", shownItems, "how many events at most")
	return cmd
}

// idle is how long nothing may have been done for a job that runs until its screen says so, beside what its rate asks.
const idle = time.Minute

func (a *app) writeJob(d *operator.JobDetails, now time.Time) error {
	state := cmp.Or(d.StateNote, string(d.State))
	filter := make([]string, 0, len(d.Filter))
	for _, name := range slices.Sorted(maps.Keys(d.Filter)) {
		filter = append(filter, "--"+name+" "+shellWord(d.Filter[name]))
	}
	does := d.Action
	if d.Effect != "" {
		does += " of " + d.Effect
	}
	head := [][]string{
		{"job", d.ID},
		{"does", does + ", of events with " + strings.Join(filter, " ")},
		{"asked for", "by " + d.Who + " at " + clock(d.CreatedAt) + because(d.Why)},
		{"state", state},
		{"events", strconv.Itoa(d.Items) + inBrackets(moneyOf(d.Money)) + ", at " + fmt.Sprint(d.Rate) + " a second"},
		{"results", fmt.Sprintf("%d done, %d refused, %d failed, %d left%s", d.Done, d.Refused, d.Failed, d.Left(), takes(d.Job))},
	}
	for i, s := range d.Events {
		name := ""
		if i == 0 {
			name = "now are"
		}
		head = append(head, []string{name, strconv.Itoa(s.Events) + " " + s.Status + because(s.ReasonCode)})
	}
	items := [][]string{{"EVENT", "RESULT", "AT", "NOTE"}}
	for _, i := range d.List {
		result, at := string(i.Result), ""
		if i.Result == job.Open {
			result = "open"
		}
		if i.EndedAt != nil {
			at = clock(*i.EndedAt)
		}
		items = append(items, []string{i.EventID, result, at, i.Note})
	}
	for i, rows := range [][][]string{head, items} {
		if i > 0 {
			if _, err := fmt.Fprintln(a.out); err != nil {
				return err
			}
		}
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	if more := d.Items - len(d.List); more > 0 {
		fmt.Fprintf(a.out, "and %d more: use --limit and --result\n", more)
	}
	id := shellWord(d.ID)
	switch quiet := now.Sub(d.ChangedAt); {
	case d.State == job.Paused:
		fmt.Fprintf(a.out, "\nlet it go on with: %s\n", a.commandLine("jobs resume "+id+" --why REASON"))
	case d.State == job.Running && quiet > idle+time.Duration(float64(time.Second)/d.Rate):
		fmt.Fprintf(a.out, "\nnothing was done for %s: does a worker run, and is Temporal well? Where its run was ended there, this starts it: %s\n",
			age(d.ChangedAt, now), a.commandLine("jobs resume "+id+" --why REASON"))
	case d.State == job.Running:
		fmt.Fprintf(a.out, "\nhold it with: %s\n", a.commandLine("jobs pause "+id+" --why REASON"))
	}
	return nil
}

// jobsMove is a command that changes the state of a job.
func (a *app) jobsMove(verb, short, long string, move func(*operator.Jobs, context.Context, string, operator.Decided) (*operator.MovedJob, error)) *cobra.Command {
	var d operator.Decided
	cmd := &cobra.Command{
		Use: verb + " ID --why REASON", Short: short, Long: long, Args: oneID("jobs " + verb),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Who = a.who(d.Who)
			if err := accountable("jobs "+verb, d.Who, d.Why); err != nil {
				return err
			}
			cfg, err := a.config()
			if err != nil {
				return err
			}
			n, err := process.New(cmd.Context(), cfg, providers(), a.log)
			if err != nil {
				return err
			}
			defer n.Close()
			var moved *operator.MovedJob
			err = a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				jobs := &operator.Jobs{Store: job.New(db), Audit: audit.New(db, a.log), Temporal: n.Temporal, TaskQueue: cfg.Temporal.TaskQueue}
				moved, err = move(jobs, ctx, args[0], d)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(moved)
			}
			if moved.Repeated {
				fmt.Fprintln(a.out, clean(moved.Says))
			}
			_, err = fmt.Fprintf(a.out, "job %s is %s: %d done, %d refused, %d failed, %d left%s\n", clean(moved.ID), moved.State,
				moved.Done, moved.Refused, moved.Failed, moved.Left(), takes(moved.Job))
			return err
		},
	}
	decidedFlags(cmd, &d)
	return cmd
}

func (a *app) jobsPause() *cobra.Command {
	return a.jobsMove("pause", "Let a bulk job stand still", `Let a bulk job stand still after the events that are under way, until it is resumed or cancelled. It needs no
Temporal.`, (*operator.Jobs).Pause)
}

func (a *app) jobsResume() *cobra.Command {
	return a.jobsMove("resume", "Let a bulk job go on", `Let a paused bulk job go on. It also starts the run of a job that has none: Temporal did not take it, or somebody has
ended it there. What has its result keeps it.`, (*operator.Jobs).Resume)
}

func (a *app) jobsCancel() *cobra.Command {
	return a.jobsMove("cancel", "End a bulk job", `End a bulk job after the events that are under way. What was decided stays so; what was not begun stays as it was.`,
		(*operator.Jobs).Cancel)
}
