package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
)

// shownItems is the number of events of a job that a command prints.
const shownItems = 20

// tellOfMore prints how many entries the output omits, if any.
func tellOfMore(a *command.App, left int) {
	if left > 0 {
		fmt.Fprintf(a.Out, "and %d more; use --json for all\n", left)
	}
}

// manyWords lists the names of the flags that select the events or tasks of a bulk decision. The job stores their
// values.
var manyWords = []string{"status", "reason-code", "source", "type", "object", "account", "outage", "since", "until",
	"kind", "mode", "about"}

// many is one call of a verb for all events or tasks that match a filter.
type many struct {
	verb   decide.Verb
	events event.Filter
	tasks  account.TaskFilter
}

// eventFilter adds the filters of the list of events, with the usage of the status.
func eventFilter(cmd *cobra.Command, f *event.Filter, status string) {
	values := map[string]*string{"status": &f.Status, "reason_code": &f.ReasonCode, "mode": &f.Mode,
		"source": &f.Source, "type": &f.Type, "object": &f.Object, "account": &f.Account,
		"outage": &f.Outage}
	times := map[string]*time.Time{"since": &f.Since, "until": &f.Until}
	for _, filter := range resource.Named("events").About().Filters {
		if at := times[filter.Name]; at != nil {
			command.TimeFlag(cmd.Flags(), at, filter.Name, filter.Usage)
			continue
		}
		if filter.Name == "status" {
			filter.Usage = status
		}
		filterFlag(cmd, filter, values[filter.Name])
	}
}

// taskFilter adds the filters of the list of tasks that the verb has no flags for.
func taskFilter(cmd *cobra.Command, f *account.TaskFilter) {
	values := map[string]*string{"about": &f.About, "account": &f.Account}
	for _, filter := range resource.Named("tasks").About().Filters {
		if value := values[filter.Name]; value != nil {
			filterFlag(cmd, filter, value)
		}
	}
}

// manyFlags adds the filter flags to the command of a verb that supports many events or tasks.
func manyFlags(cmd *cobra.Command, v decide.Verb, d *decision) *many {
	m := &many{verb: v}
	switch {
	case v.ManyTasks:
		taskFilter(cmd, &m.tasks)
		d.manyFlags(cmd, 20, "the highest number of tasks per second")
	case len(v.Many) > 0:
		eventFilter(cmd, &m.events, "instead of ID: all events with this `status` that match the other filters")
		d.manyFlags(cmd, 5, "the highest number of events per second")
	}
	return m
}

func isMany(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("rate") != nil && slices.ContainsFunc(append([]string{"rate"}, manyWords...),
		func(name string) bool { return name != "kind" && name != "mode" && cmd.Flags().Changed(name) })
}

// targets checks the arguments of a verb: one ID, or no ID and a filter if the verb supports many.
func targets(v decide.Verb) cobra.PositionalArgs {
	if len(v.Many) == 0 && !v.ManyTasks {
		return command.OneID
	}
	return func(cmd *cobra.Command, args []string) error {
		switch many := isMany(cmd); {
		case v.ManyTasks && (len(args) > 1 || len(args) == 1 && many):
			return command.Usagef("%s takes either one OBJECT or a filter", v.Command)
		case v.ManyTasks:
		case !many && len(args) != 1:
			return command.Usagef("%s needs one ID, or --status for many events", v.Command)
		case many && len(args) > 0:
			return command.Usagef("%s takes either one ID or a filter: remove %q or the filter", v.Command, args[0])
		}
		return nil
	}
}

func (m *many) check(d decision) error {
	switch {
	case m.verb.ManyTasks && d.Kind == "":
		return command.Usagef("tasks close needs one OBJECT, or --kind for all open tasks of that kind")
	case m.verb.ManyTasks && d.Kind == billing.TaskReview:
		return command.Usagef("--kind review: decide about the events with events approve or events reject, --status needs_review")
	case len(d.Request) > jobs.MaxID || strings.Contains(d.Request, " "):
		return command.Usagef("--request-id: the request ID of a job has at most %d characters and no spaces",
			jobs.MaxID)
	case !m.verb.ManyTasks:
		if err := jobs.CheckMany(&m.verb, m.events.Status, d.rate); err != nil {
			return command.Usagef("--%w", err)
		}
	}
	return nil
}

// run starts a job for the selected events or tasks, or previews it.
func (m *many) run(cmd *cobra.Command, a *command.App, d decision) error {
	if m.verb.Reason != "" {
		m.events.ReasonCode = cmp.Or(m.events.ReasonCode, m.verb.Reason)
		m.events.Status = cmp.Or(m.events.Status, m.verb.Many[0])
	}
	if err := m.check(d); err != nil {
		return err
	}
	made := &decide.NewJob{Job: job.Job{Action: m.verb.Name, Effect: d.Effect, Reference: d.Reference,
		Filter: map[string]string{}, Rate: d.rate}}
	for _, name := range manyWords {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.String() != "" {
			made.Filter[strings.ReplaceAll(name, "-", "_")] = flag.Value.String()
		}
	}
	choose := m.chooseEvents
	if m.verb.ManyTasks {
		made.Action, choose = job.CloseTask, m.chooseTasks
	}
	does := ""
	err := a.Asking(cmd.Context(), func(ctx context.Context, s *command.Session) (err error) {
		if d.Request != "" && !d.dryRun {
			// A repeated request does not select and confirm the items again.
			if _, err := job.New(s.DB).Get(ctx, d.Request); !errors.Is(err, schema.ErrNotFound) {
				d.yes = true
				return err
			}
		}
		does, err = choose(ctx, s, made, d)
		return err
	})
	if err == nil && d.dryRun && !m.verb.ManyTasks {
		// Previewing many events takes longer than the deadline of one session.
		return a.Asking(cmd.Context(), func(ctx context.Context, s *command.Session) error {
			preview, err := jobs.PreviewAll(ctx, s.Operator, nil, made)
			if err != nil {
				return err
			}
			return command.Emit(a, preview, writeJobPreview)
		})
	}
	if err != nil || d.dryRun {
		return err
	}
	return startJob(cmd.Context(), a, d, made, does)
}

// chooseEvents adds the events that match the filter to a job. It returns the description of the job.
func (m *many) chooseEvents(ctx context.Context, s *command.Session, made *decide.NewJob, d decision) (does string,
	err error) {
	if made.Chosen, err = event.Choose(ctx, s.DB, m.events); err != nil {
		return "", err
	}
	n := len(made.Chosen.Events)
	if n == 0 && !d.dryRun {
		return "", fmt.Errorf("there is nothing to %s: no event matches the filter", m.verb.Name)
	}
	return fmt.Sprintf("%s of %s%s.", m.verb.Name, output.Plural(n, "event"),
		tables.InBrackets(decide.Sums(made.Chosen.Money))), nil
}

// chooseTasks is [many.chooseEvents] for tasks. A dry run lists them.
func (m *many) chooseTasks(ctx context.Context, s *command.Session, made *decide.NewJob, d decision) (does string,
	err error) {
	m.tasks.Mode, m.tasks.Kind, m.tasks.Limit = d.Mode, d.Kind, decide.MostJobItems+1
	tasks, err := account.OpenTasks(ctx, s.DB, m.tasks)
	switch {
	case err != nil:
		return "", err
	case d.dryRun:
		return "", command.Emit(s.App, tasks, writeTasksToClose)
	case len(tasks) == 0:
		return "", errors.New("there is nothing to close: no open task matches the filter")
	case len(tasks) > decide.MostJobItems:
		return "", fmt.Errorf("more than %d tasks match the filter: narrow it with --about, --account or --mode",
			decide.MostJobItems)
	}
	for _, t := range tasks {
		made.Others = append(made.Others, job.Item{Target: t.Mode + "/" + t.Kind + "/" + t.Object, Name: t.Object,
			Seen: &t.Since})
	}
	return "This job would close " + output.Plural(len(tasks), "task") + " of kind " + d.Kind + ".", nil
}

func writeTasksToClose(a *command.App, tasks []account.Task) {
	a.Table(tables.Tasks(tasks[:min(shownItems, len(tasks))]))
	tellOfMore(a, len(tasks)-shownItems)
	fmt.Fprintf(a.Out, "\nwould close %s; nothing was done\n", output.Plural(len(tasks), "task"))
}

func writeJobPreview(a *command.App, p *jobs.Preview) {
	a.Table(tables.Chosen(p.Events[:min(shownItems, len(p.Events))]))
	tellOfMore(a, len(p.Events)-shownItems)
	fmt.Fprintf(a.Out, "\nwould %s %s%s; nothing was done\n", p.Action, output.Plural(p.Count, "event"),
		tables.InBrackets(decide.Sums(p.Chosen.Money)))
	for _, row := range tables.JobPreview(p) {
		fmt.Fprintf(a.Out, "%s: %s\n", row[0], output.Text(row[1]))
	}
}
