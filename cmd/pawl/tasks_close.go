package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
)

// manyTasks is a call of a command about the tasks of one cause.
type manyTasks struct {
	filter account.TaskFilter
	rate   float64
	yes    bool
}

// taskFilterFlags are those that choose tasks beside --kind and --mode.
func taskFilterFlags(cmd *cobra.Command, f *account.TaskFilter) {
	cmd.Flags().StringVar(&f.About, "about", "", "only those about this price or connected account, by its `ID`")
	cmd.Flags().StringVar(&f.Account, "account", "", "only those about this account of ours")
}

// manyTasksFlags gives a command the flags of a job about tasks.
func manyTasksFlags(cmd *cobra.Command) *manyTasks {
	m := new(manyTasks)
	taskFilterFlags(cmd, &m.filter)
	cmd.Flags().Float64Var(&m.rate, "rate", 20, "how many tasks a second, at most")
	cmd.Flags().BoolVar(&m.yes, "yes", false, "do not ask for confirmation")
	return m
}

// run makes a job of the open tasks of one cause, or lists them.
func (m *manyTasks) run(ctx context.Context, a *app, d operator.Decision, dryRun bool) error {
	switch m.filter.Mode, m.filter.Kind = d.Mode, d.Kind; m.filter.Kind {
	case "":
		return usagef("tasks close needs one OBJECT, or --kind for all open tasks of that kind")
	case billing.TaskReview:
		return usagef("--kind review: decide about the events, with events approve, or reject, --status needs_review")
	}
	with := a.deciding
	if dryRun {
		with = a.asking
	}
	return with(ctx, func(ctx context.Context, s *session) error {
		if _, err := job.New(s.db).Get(ctx, d.Request); !dryRun && !errors.Is(err, job.ErrNotFound) {
			if err != nil {
				return err
			}
			return s.startJob(ctx, m.job(nil), "", d, true) // the same request once more
		}
		m.filter.Limit = operator.MostJobItems + 1
		tasks, err := account.OpenTasks(ctx, s.db, m.filter)
		switch {
		case err != nil:
			return err
		case dryRun:
			return emit(a, tasks, writeTasksToClose)
		case len(tasks) == 0:
			return errors.New("there is nothing to close: no open task passes the filter")
		case len(tasks) > operator.MostJobItems:
			return fmt.Errorf("more than %d tasks pass the filter: narrow it, with --about, --account or --mode",
				operator.MostJobItems)
		}
		does := "This is to close " + output.Plural(len(tasks), "task") + " of kind " + m.filter.Kind + "."
		return s.startJob(ctx, m.job(tasks), does, d, m.yes)
	})
}

// writeTasksToClose shows what a job would close.
func writeTasksToClose(a *app, tasks []account.Task) error {
	if err := a.Table(tables.Tasks(tasks[:min(shownItems, len(tasks))])); err != nil {
		return err
	}
	tellOfMore(a, len(tasks)-shownItems)
	_, err := fmt.Fprintf(a.out, "\nwould close %s; nothing was done\n", output.Plural(len(tasks), "task"))
	return err
}

// job is the job that closes tasks.
func (m *manyTasks) job(tasks []account.Task) *operator.NewJob {
	made := &operator.NewJob{Job: job.Job{Action: job.CloseTask, Filter: map[string]string{}, Rate: m.rate}}
	f := m.filter
	for name, value := range map[string]string{"kind": f.Kind, "mode": f.Mode, "about": f.About, "account": f.Account} {
		if value != "" {
			made.Filter[name] = value
		}
	}
	for _, t := range tasks {
		made.Others = append(made.Others, job.Item{Target: t.Mode + "/" + t.Kind + "/" + t.Object, Name: t.Object})
	}
	return made
}
