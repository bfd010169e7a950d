package task

import (
	"context"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/job"
)

// Close implements `pawl tasks close`.
var Close = decide.Verb{
	Name: job.CloseTask, Judges: true, Needs: role.RightTasks, Command: "tasks close", Target: "OBJECT",
	Rule: ruleOf(always("done"), closed), Flags: []decide.Flag{decide.FlagKind, decide.FlagMode}, ManyTasks: true,
	Item: closeItem,
	JudgesItem: func(target string) bool {
		mode, kind, _ := parse(target)
		return judges(mode, kind)
	},
	Short: "Close the open task of an object, or all tasks of one cause",
	Long: `Close the open task of an object. pawl tasks list shows the OBJECT of each task. The audit trail contains your name
and the reason. To close a review, decide about its event.

Without OBJECT, the command closes all open tasks of one cause as a job: the tasks of --kind that match the other
filters. --dry-run lists them. pawl jobs show prints the result of each task, and the audit trail has an entry for each.`,
}

func closed(d *decide.Decision, t *account.Task) (c change, err error) {
	if t.Kind == billing.TaskReview {
		return c, d.Refuse("belongs to the review of event %s: decide about the event with pawl events approve or reject %[1]s", t.Event)
	}
	c = change{after: resultOf(t), do: account.Done, judges: judges(t.Mode, t.Kind)}
	c.after.State = fold.TaskDone
	return c, nil
}

// closeItem closes the task of a job's item.
func closeItem(ctx context.Context, o *decide.Operator, d decide.Decision) (says string, err error) {
	d.Mode, d.Kind, d.Target = parse(d.Target)
	answer, err := o.Decide(ctx, d)
	if err != nil {
		return "", err
	}
	return answer.Message, nil
}

// noMoney lists the kinds of tasks that do not involve money.
var noMoney = []string{billing.TaskOnboarding, billing.TaskAhead, billing.TaskAlike}

// judges reports whether closing a task decides about live money.
func judges(mode, kind string) bool { return mode == decide.Live && !slices.Contains(noMoney, kind) }

// parse parses the target of a job's item that is a task.
func parse(target string) (mode, kind, object string) {
	mode, rest, _ := strings.Cut(target, "/")
	kind, object, _ = strings.Cut(rest, "/")
	return mode, kind, object
}
