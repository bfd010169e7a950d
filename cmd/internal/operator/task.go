package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// TaskResult is the task after a decision.
type TaskResult struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Mode   string `json:"mode"`
	State  string `json:"state"`
	// TakenBy is the person who has taken the task. It is empty if the task is free.
	TakenBy string `json:"taken_by,omitempty"`
}

// taskRule takes, annotates or closes the open task about an object. Only the audit trail stores a note. Kind and Mode
// are optional if the object has one open task.
var taskRule = rule[struct{}, *TaskResult]{
	find: func(_ context.Context, d *Decision) (struct{}, string, error) {
		return struct{}{}, "task/" + d.Target, nil
	},
	check: func(ctx context.Context, d *Decision, _ struct{}) (*change, error) {
		t, err := findTask(ctx, d)
		if err != nil {
			return nil, err
		}
		if err := d.changed(t.Since); err != nil {
			return nil, err
		}
		after := TaskResult{t.Kind, t.Object, t.Mode, t.State, t.TakenBy}
		do := func(context.Context, account.Execer, account.Task) (bool, error) { return true, nil }
		switch d.Verb {
		case VerbTakeTask:
			if t.TakenBy == d.Who {
				return nil, d.refuse("is taken by %s already", d.Who)
			}
			t.TakenBy, after.TakenBy, do = d.Who, d.Who, account.Take
		case VerbCloseTask:
			if t.Kind == billing.TaskReview {
				return nil, d.refuse("is reviewed by its event %s, which waits for the end of that: decide there, with pawl events approve or reject %[1]s", t.Event)
			}
			after.State, do = fold.TaskDone, account.Done
		}
		return &change{
			target: d.Target, judges: judgesTask(d.Verb, t.Mode, t.Kind),
			before: map[string]any{"kind": t.Kind, "mode": t.Mode, "account": t.Account, "state": fold.TaskOpen},
			after: map[string]any{"kind": after.Kind, "object": after.Object, "mode": after.Mode, "state": after.State,
				"taken_by": after.TakenBy},
			do: func(ctx context.Context, tx pgx.Tx) error {
				changed, err := do(ctx, tx, *t)
				if err == nil && !changed {
					err = noTask(d)
				}
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, d *Decision, _ struct{}, rec recorded) (string, *TaskResult, error) {
		res := new(TaskResult)
		if err := rec.read(rec.After, res); err != nil {
			return "", nil, err
		}
		says := map[string]string{VerbTakeTask: "taken by " + res.TakenBy, VerbNoteTask: "noted",
			VerbCloseTask: "done"}[d.Verb]
		return fmt.Sprintf("%s of %s (%s) is %s", res.Kind, res.Object, res.Mode, says), res, nil
	},
}

// findTask returns the single open task that matches the decision.
func findTask(ctx context.Context, d *Decision) (*account.Task, error) {
	about, err := account.TasksAbout(ctx, d.o.DB, d.Target)
	if err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(about, func(t account.Task) bool {
		return t.State != fold.TaskOpen || d.Kind != "" && t.Kind != d.Kind || d.Mode != "" && t.Mode != d.Mode
	})
	if len(open) == 0 {
		return nil, noTask(d)
	}
	if len(open) > 1 {
		list := make([]string, len(open))
		for i, t := range open {
			list[i] = fmt.Sprintf("--kind %s --mode %s", t.Kind, t.Mode)
		}
		return nil, d.refuse("has %d open tasks; add one of: %s", len(open), strings.Join(list, ", "))
	}
	return &open[0], nil
}

func noTask(d *Decision) error {
	return d.refuse("has no open task: `pawl tasks list` shows what is open, with the object of each")
}

// ShownTask is an open or closed task with the actions of people.
type ShownTask struct {
	account.Task
	// Actions lists who took, annotated or closed the task and why, newest first.
	Actions []audit.Row `json:"actions"`
}

// mostActions limits the actions that are read per object.
const mostActions = 100

// ShowTasks returns all tasks about an object.
func (o *Operator) ShowTasks(ctx context.Context, object string) ([]ShownTask, error) {
	tasks, err := account.TasksAbout(ctx, o.DB, object)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, unknown("%s has no task, and had none: `pawl tasks list` shows the object of each", object)
	}
	actions, err := o.Audit.List(ctx, audit.Filter{Target: object, Limit: mostActions})
	if err != nil {
		return nil, err
	}
	shown := []ShownTask{}
	for _, t := range tasks {
		of := slices.DeleteFunc(slices.Clone(actions), func(a audit.Row) bool {
			var about TaskResult
			return json.Unmarshal(a.After, &about) != nil || about.Kind != t.Kind || about.Mode != t.Mode
		})
		shown = append(shown, ShownTask{t, of})
	}
	return shown, nil
}
