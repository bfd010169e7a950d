package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

// UnknownAccountError means that no account has the ID, under any of its names.
type UnknownAccountError struct{ ID, Mode string }

func (e *UnknownAccountError) Error() string {
	in := ""
	if e.Mode != "" {
		in = " in mode " + e.Mode
	}
	return fmt.Sprintf("no account %q%s: it is no account of ours, and no customer, subscription or invoice of one", e.ID, in)
}

// AmbiguousAccountError means that the ID names several accounts.
type AmbiguousAccountError struct {
	ID       string
	Accounts []account.Name
}

func (e *AmbiguousAccountError) Error() string {
	list := make([]string, len(e.Accounts))
	for i, a := range e.Accounts {
		list[i] = fmt.Sprintf("%s --mode %s", a.ID, a.Mode)
	}
	return fmt.Sprintf("%q names %d accounts; write one of: %s", e.ID, len(list), strings.Join(list, ", "))
}

// ShowAccount returns everything about the account that id names: our ID of it, or the provider's of a customer, a
// subscription or an invoice. mode may be "" where one account has that name. The error is an [*UnknownAccountError] or
// an [*AmbiguousAccountError] when id does not name one.
func ShowAccount(ctx context.Context, db account.DB, id, mode string) (*account.Account, error) {
	names, err := account.Find(ctx, db, id, mode)
	if err != nil {
		return nil, err
	}
	switch len(names) {
	case 0:
		return nil, &UnknownAccountError{ID: id, Mode: mode}
	case 1:
		return account.Show(ctx, db, names[0])
	}
	return nil, &AmbiguousAccountError{ID: id, Accounts: names}
}

// NoOpenTaskError means that nothing is open about an object.
type NoOpenTaskError struct{ Object string }

func (e *NoOpenTaskError) Error() string {
	return fmt.Sprintf("no open task about %q: `pawl tasks list` shows what is open, with the object of each", e.Object)
}

// SeveralTasksError means that several tasks about an object are open.
type SeveralTasksError struct{ Tasks []account.Task }

func (e *SeveralTasksError) Error() string {
	list := make([]string, len(e.Tasks))
	for i, t := range e.Tasks {
		list[i] = fmt.Sprintf("--kind %s --mode %s", t.Kind, t.Mode)
	}
	return fmt.Sprintf("%d tasks about %q are open; add one of: %s", len(list), e.Tasks[0].Object, strings.Join(list, ", "))
}

// ReviewTaskError means that the task is a parked event's question: closing it here would leave the event parked.
type ReviewTaskError struct{ Event string }

func (e *ReviewTaskError) Error() string {
	return fmt.Sprintf("%s asks for this review and waits for its end: decide there, with pawl events approve or reject %[1]s", e.Event)
}

// ClosedTask is a task that was closed.
type ClosedTask struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Mode   string `json:"mode"`
	State  string `json:"state"`
	Repeat
}

// CloseTask closes the open task about an object, as done; kind and mode may be "" where one is open. Who and why stand in
// the audit trail in one commit with that. A call that is repeated with its request ID does nothing and says the same. The
// error is a [*NoOpenTaskError], a [*SeveralTasksError] or a [*ReviewTaskError] where the task cannot be closed here.
func CloseTask(ctx context.Context, db *pgxpool.Pool, trail *audit.Store, object, kind, mode string, by Decided) (*ClosedTask, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	action := audit.Action{RequestID: by.id("task/" + object), Actor: by.Who, Action: "close-task", Target: object, Reason: by.Why}
	recorded, repeat, err := by.earlier(ctx, trail, action)
	switch {
	case err != nil:
		return nil, err
	case recorded != nil:
		closed := &ClosedTask{Object: object, State: billing.TaskDone, Repeat: repeat}
		var before struct{ Kind, Mode string }
		if err := json.Unmarshal(recorded.Before, &before); err != nil {
			return nil, fmt.Errorf("read request %s: %w", by.RequestID, err)
		}
		if closed.Kind, closed.Mode = before.Kind, before.Mode; cmp.Or(kind, closed.Kind) != closed.Kind || cmp.Or(mode, closed.Mode) != closed.Mode {
			return nil, by.taken(recorded)
		}
		return closed, nil
	}
	open, err := account.OpenAbout(ctx, db, object)
	if err != nil {
		return nil, err
	}
	open = slices.DeleteFunc(open, func(t account.Task) bool { return kind != "" && t.Kind != kind || mode != "" && t.Mode != mode })
	switch {
	case len(open) == 0:
		return nil, &NoOpenTaskError{Object: object}
	case len(open) > 1:
		return nil, &SeveralTasksError{Tasks: open}
	case open[0].Kind == billing.TaskReview:
		return nil, &ReviewTaskError{Event: open[0].Event}
	}
	t := open[0]
	action.Before = map[string]any{"kind": t.Kind, "mode": t.Mode, "account": t.Account, "state": billing.TaskOpen}
	action.After = map[string]any{"state": billing.TaskDone}
	added, err := trail.AppendWith(ctx, action, func(ctx context.Context, tx pgx.Tx) error {
		closed, err := account.Done(ctx, tx, t)
		if err == nil && !closed {
			err = &NoOpenTaskError{Object: object}
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !added: // the same request, at this moment
		return CloseTask(ctx, db, trail, object, kind, mode, by)
	}
	return &ClosedTask{Kind: t.Kind, Object: t.Object, Mode: t.Mode, State: billing.TaskDone}, nil
}
