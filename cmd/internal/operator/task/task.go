// Package task implements what operators read and decide about tasks.
package task

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Result is the task after a decision.
type Result struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Mode   string `json:"mode"`
	State  string `json:"state"`
	// TakenBy is the person who has taken the task. It is empty if the task is free.
	TakenBy string `json:"taken_by,omitempty"`
}

// change is the change of a task. after is the state of the task after the change.
type change struct {
	after  Result
	judges bool
	do     func(context.Context, account.Execer, account.Task) (changed bool, err error)
}

func resultOf(t *account.Task) Result {
	return Result{t.Kind, t.Object, t.Mode, t.State, t.TakenBy}
}

// always returns a function that returns the same text for every task.
func always(text string) func(Result) string { return func(Result) string { return text } }

// ruleOf returns the rule of a verb about the open task of an object. Kind and Mode are optional if the object has
// one open task. outcome returns the change that the answer makes.
func ruleOf(outcome func(Result) string,
	prepare func(*decide.Decision, *account.Task) (change, error)) decide.Rule[struct{}, *Result] {
	return decide.Rule[struct{}, *Result]{
		Find: func(_ context.Context, d *decide.Decision) (struct{}, string, error) {
			return struct{}{}, "task/" + d.Target, nil
		},
		Check: func(ctx context.Context, d *decide.Decision, _ struct{}) (*decide.Change, error) {
			t, err := find(ctx, d)
			if err != nil {
				return nil, err
			}
			if err := d.Changed(t.Since); err != nil {
				return nil, err
			}
			c, err := prepare(d, t)
			if err != nil {
				return nil, err
			}
			return &decide.Change{
				Target: d.Target, Judges: c.judges,
				Before: map[string]any{"kind": t.Kind, "mode": t.Mode, "account": t.Account, "state": fold.TaskOpen},
				After: map[string]any{"kind": c.after.Kind, "object": c.after.Object, "mode": c.after.Mode,
					"state": c.after.State, "taken_by": c.after.TakenBy},
				Do: func(ctx context.Context, tx pgx.Tx) error {
					changed, err := c.do(ctx, tx, *t)
					if err == nil && !changed {
						err = none(d)
					}
					return err
				},
			}, nil
		},
		Act: func(_ context.Context, _ *decide.Decision, _ struct{}, rec decide.Recorded) (string, *Result, error) {
			res := new(Result)
			if err := rec.Read(rec.After, res); err != nil {
				return "", nil, err
			}
			return fmt.Sprintf("%s of %s (%s) is %s", res.Kind, res.Object, res.Mode, outcome(*res)), res, nil
		},
	}
}

// find returns the single open task that matches the decision.
func find(ctx context.Context, d *decide.Decision) (*account.Task, error) {
	about, err := account.TasksAbout(ctx, d.Operator.DB, d.Target)
	if err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(about, func(t account.Task) bool {
		return t.State != fold.TaskOpen || d.Kind != "" && t.Kind != d.Kind || d.Mode != "" && t.Mode != d.Mode
	})
	if len(open) == 0 {
		return nil, none(d)
	}
	if len(open) > 1 {
		list := make([]string, len(open))
		for i, t := range open {
			list[i] = fmt.Sprintf("--kind %s --mode %s", t.Kind, t.Mode)
		}
		return nil, d.Refuse("has %d open tasks; add one of: %s", len(open), strings.Join(list, ", "))
	}
	return &open[0], nil
}

func none(d *decide.Decision) error {
	return d.Refuse("has no open task: `pawl tasks list` shows the open tasks with their objects")
}

// Shown is an open or closed task with the actions of people.
type Shown struct {
	account.Task
	// Actions lists the actions of people about the task (take, note, close) with their reasons, newest first.
	Actions []audit.Row `json:"actions"`
}

// mostActions limits the actions that are read per object.
const mostActions = 100

// Show returns all tasks about an object.
func Show(ctx context.Context, o *decide.Operator, object string) ([]Shown, error) {
	tasks, err := account.TasksAbout(ctx, o.DB, object)
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, decide.Unknownf("%s has no task and never had one: `pawl tasks list` shows the object of each task", object)
	}
	actions, err := o.Audit.List(ctx, audit.Filter{Target: object, Limit: mostActions})
	if err != nil {
		return nil, err
	}
	shown := []Shown{}
	for _, t := range tasks {
		of := slices.DeleteFunc(slices.Clone(actions), func(a audit.Row) bool {
			var about Result
			return json.Unmarshal(a.After, &about) != nil || about.Kind != t.Kind || about.Mode != t.Mode
		})
		shown = append(shown, Shown{t, of})
	}
	return shown, nil
}
