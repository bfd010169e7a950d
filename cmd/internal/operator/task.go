package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
)

// TaskResult is a task that was closed.
type TaskResult struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Mode   string `json:"mode"`
	State  string `json:"state"`
}

// taskRule closes the open task about an object, as done. Kind and Mode may be "" if one is open.
var taskRule = rule[struct{}]{
	find: func(_ context.Context, _ *Operator, d *Decision) (struct{}, string, error) {
		return struct{}{}, "task/" + d.Target, nil
	},
	check: func(ctx context.Context, o *Operator, d *Decision, _ struct{}) (*change, error) {
		open, err := account.OpenAbout(ctx, o.DB, d.Target)
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open,
			func(t account.Task) bool { return d.Kind != "" && t.Kind != d.Kind || d.Mode != "" && t.Mode != d.Mode })
		none := d.refuse("has no open task: `pawl tasks list` shows what is open, with the object of each")
		switch {
		case len(open) == 0:
			return nil, none
		case len(open) > 1:
			list := make([]string, len(open))
			for i, t := range open {
				list[i] = fmt.Sprintf("--kind %s --mode %s", t.Kind, t.Mode)
			}
			return nil, d.refuse("has %d open tasks; add one of: %s", len(open), strings.Join(list, ", "))
		case open[0].Kind == billing.TaskReview:
			return nil, d.refuse("is reviewed by its event %s, which waits for the end of that: decide there, with pawl events approve or reject %[1]s", open[0].Event)
		}
		t := open[0]
		return &change{
			target: d.Target,
			before: map[string]any{"kind": t.Kind, "mode": t.Mode, "account": t.Account, "state": billing.TaskOpen},
			after:  map[string]any{"kind": t.Kind, "object": t.Object, "mode": t.Mode, "state": billing.TaskDone},
			do: func(ctx context.Context, tx pgx.Tx) error {
				closed, err := account.Done(ctx, tx, t)
				if err == nil && !closed {
					err = none
				}
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Operator, d *Decision, _ struct{}, rec recorded) (string, any, error) {
		res := new(TaskResult)
		if err := rec.read(nil, res); err != nil {
			return "", nil, err
		}
		if d.Kind != "" && d.Kind != res.Kind || d.Mode != "" && d.Mode != res.Mode {
			return "", nil, d.refuse("has another task that request ID %s closed, of kind %s in mode %s: a new decision needs another ID", d.Request, res.Kind, res.Mode)
		}
		return fmt.Sprintf("%s of %s (%s) is done", res.Kind, res.Object, res.Mode), res, nil
	},
}
