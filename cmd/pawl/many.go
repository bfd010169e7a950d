package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

// shownItems is how many of a job's events a screen shows.
const shownItems = 20

// tellOfMore says how many entries a screen leaves out, where it leaves out any.
func tellOfMore(a *app, left int) {
	if left > 0 {
		fmt.Fprintf(a.out, "and %d more; --json has all\n", left)
	}
}

// manyWords are the flags that choose what many are, and stand with the job.
var manyWords = []string{"status", "reason", "source", "type", "object", "account", "since", "until", "kind", "mode",
	"about"}

// many is a call of a verb about many events, or about the tasks of one kind, in place of one of them.
type many struct {
	verb   operator.Verb
	events operator.Events
	tasks  account.TaskFilter
}

func eventFilter(cmd *cobra.Command, f *operator.Events, status string) {
	words := make([]string, len(receipt.Statuses))
	for i, s := range receipt.Statuses {
		words[i] = string(s)
	}
	oneOfFlag(cmd, &f.Status, "status", status, words...)
	cmd.Flags().StringVar(&f.ReasonCode, "reason", "", "only events with this reason `code`, such as type_not_wanted")
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this source")
	cmd.Flags().StringVar(&f.Type, "type", "", "only events of this type")
	cmd.Flags().StringVar(&f.Object, "object", "", "only events about this object of the provider: an invoice (also by its number), a subscription, a customer, ...")
	cmd.Flags().StringVar(&f.Account, "account", "", "only events about this account of ours")
	timeFlag(cmd.Flags(), &f.Since, "since", "only events received since "+sinceUsage)
	timeFlag(cmd.Flags(), &f.Until, "until", "only events received before this `time`")
}

func taskFilterFlags(cmd *cobra.Command, f *account.TaskFilter) {
	cmd.Flags().StringVar(&f.About, "about", "", "only those about this price or connected account, by its `ID`")
	cmd.Flags().StringVar(&f.Account, "account", "", "only those about this account of ours")
}

// manyFlags gives the command of a verb that can be about many the flags for it.
func manyFlags(cmd *cobra.Command, v operator.Verb, d *decision) *many {
	m := &many{verb: v}
	switch {
	case v.ManyTasks:
		taskFilterFlags(cmd, &m.tasks)
		d.manyFlags(cmd, 20, "how many tasks a second, at most")
	case len(v.Many) > 0:
		eventFilter(cmd, &m.events, "many at once: all events with this `status`, and what else narrows them, in place of ID")
		d.manyFlags(cmd, 5, "how many events a second, at most")
	}
	return m
}

func isMany(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("rate") != nil && slices.ContainsFunc(append([]string{"rate"}, manyWords...),
		func(name string) bool { return name != "kind" && name != "mode" && cmd.Flags().Changed(name) })
}

// targets wants what a verb is about: one ID, or none and a filter if it can be about many.
func targets(v operator.Verb) cobra.PositionalArgs {
	if len(v.Many) == 0 && !v.ManyTasks {
		return oneID
	}
	return func(cmd *cobra.Command, args []string) error {
		switch many := isMany(cmd); {
		case v.ManyTasks && (len(args) > 1 || len(args) == 1 && many):
			return usagef("%s takes one OBJECT, or a filter, and not both", v.Command)
		case v.ManyTasks:
		case !many && len(args) != 1:
			return usagef("%s needs one ID, or --status for many", v.Command)
		case many && len(args) > 0:
			return usagef("%s takes one ID, or a filter, and not both: leave %q out, or the filter", v.Command, args[0])
		}
		return nil
	}
}

func (m *many) check(d decision) error {
	switch {
	case m.verb.ManyTasks && d.Kind == "":
		return usagef("tasks close needs one OBJECT, or --kind for all open tasks of that kind")
	case m.verb.ManyTasks && d.Kind == billing.TaskReview:
		return usagef("--kind review: decide about the events, with events approve, or reject, --status needs_review")
	case len(d.Request) > operator.MaxJobID || strings.Contains(d.Request, " "):
		return usagef("--request-id: the request ID of a job has %d characters at most, without spaces", operator.MaxJobID)
	case !m.verb.ManyTasks:
		if err := m.verb.CheckMany(m.events.Status, d.rate); err != nil {
			return usagef("--%w", err)
		}
	}
	return nil
}

// run makes a job about the chosen events or tasks, or previews it.
func (m *many) run(cmd *cobra.Command, a *app, d decision) error {
	if err := m.check(d); err != nil {
		return err
	}
	made := &operator.NewJob{Job: job.Job{Action: m.verb.Name, Effect: d.Effect, Reference: d.Reference,
		Filter: map[string]string{}, Rate: d.rate}}
	for _, name := range manyWords {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.String() != "" {
			made.Filter[name] = flag.Value.String()
		}
	}
	choose := m.chooseEvents
	if m.verb.ManyTasks {
		made.Action, choose = job.CloseTask, m.chooseTasks
	}
	does := ""
	err := a.asking(cmd.Context(), func(ctx context.Context, s *session) (err error) {
		if d.Request != "" && !d.dryRun {
			// A repeated request is not chosen, and not confirmed, again.
			if _, err := job.New(s.db).Get(ctx, d.Request); !errors.Is(err, schema.ErrNotFound) {
				d.yes = true
				return err
			}
		}
		does, err = choose(ctx, s, made, d)
		return err
	})
	if err == nil && d.dryRun && !m.verb.ManyTasks {
		// A preview of many takes its time, so it has a session of its own.
		return a.asking(cmd.Context(), func(ctx context.Context, s *session) error {
			preview, err := s.PreviewJob(ctx, nil, made)
			if err != nil {
				return err
			}
			return emit(a, preview, writeJobPreview)
		})
	}
	if err != nil || d.dryRun {
		return err
	}
	return a.startJob(cmd.Context(), d, made, does)
}

// chooseEvents puts the events that pass the filter into a job, and describes the job.
func (m *many) chooseEvents(ctx context.Context, s *session, made *operator.NewJob, d decision) (does string,
	err error) {
	if made.Chosen, err = operator.ChooseEvents(ctx, s.db, m.events); err != nil {
		return "", err
	}
	n := len(made.Chosen.Events)
	if n == 0 && !d.dryRun {
		return "", fmt.Errorf("there is nothing to %s: no event passes the filter", m.verb.Name)
	}
	return fmt.Sprintf("%s of %s%s.", m.verb.Name, output.Plural(n, "event"),
		tables.InBrackets(operator.Sums(made.Chosen.Money))), nil
}

// chooseTasks is [many.chooseEvents] of tasks. A dry run lists them.
func (m *many) chooseTasks(ctx context.Context, s *session, made *operator.NewJob, d decision) (does string,
	err error) {
	m.tasks.Mode, m.tasks.Kind, m.tasks.Limit = d.Mode, d.Kind, operator.MostJobItems+1
	tasks, err := account.OpenTasks(ctx, s.db, m.tasks)
	switch {
	case err != nil:
		return "", err
	case d.dryRun:
		return "", emit(s.app, tasks, writeTasksToClose)
	case len(tasks) == 0:
		return "", errors.New("there is nothing to close: no open task passes the filter")
	case len(tasks) > operator.MostJobItems:
		return "", fmt.Errorf("more than %d tasks pass the filter: narrow it, with --about, --account or --mode",
			operator.MostJobItems)
	}
	for _, t := range tasks {
		made.Others = append(made.Others, job.Item{Target: t.Mode + "/" + t.Kind + "/" + t.Object, Name: t.Object})
	}
	return "This is to close " + output.Plural(len(tasks), "task") + " of kind " + d.Kind + ".", nil
}

func writeTasksToClose(a *app, tasks []account.Task) {
	a.Table(tables.Tasks(tasks[:min(shownItems, len(tasks))]))
	tellOfMore(a, len(tasks)-shownItems)
	fmt.Fprintf(a.out, "\nwould close %s; nothing was done\n", output.Plural(len(tasks), "task"))
}

func writeJobPreview(a *app, p *operator.JobPreview) {
	a.Table(tables.Chosen(p.Events[:min(shownItems, len(p.Events))]))
	tellOfMore(a, len(p.Events)-shownItems)
	fmt.Fprintf(a.out, "\nwould %s %s%s; nothing was done\n", p.Action, output.Plural(p.Count, "event"),
		tables.InBrackets(operator.Sums(p.Chosen.Money)))
	for _, row := range tables.JobPreview(p) {
		fmt.Fprintf(a.out, "%s: %s\n", row[0], output.Clean(row[1]))
	}
}
