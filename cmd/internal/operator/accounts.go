package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
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

// CloseTask closes the open task about an object, as done; kind and mode may be "" where one is open. Who and why stand in
// the audit trail before it is closed. The error is a [*NoOpenTaskError], a [*SeveralTasksError] or a [*ReviewTaskError]
// where the task cannot be closed here.
func CloseTask(ctx context.Context, db *pgxpool.Pool, trail *audit.Store, object, kind, mode, who, why string) (account.Task, error) {
	if err := accountable(who, why); err != nil {
		return account.Task{}, err
	}
	open, err := account.OpenAbout(ctx, db, object)
	if err != nil {
		return account.Task{}, err
	}
	open = slices.DeleteFunc(open, func(t account.Task) bool { return kind != "" && t.Kind != kind || mode != "" && t.Mode != mode })
	switch {
	case len(open) == 0:
		return account.Task{}, &NoOpenTaskError{Object: object}
	case len(open) > 1:
		return account.Task{}, &SeveralTasksError{Tasks: open}
	case open[0].Kind == billing.TaskReview:
		return account.Task{}, &ReviewTaskError{Event: open[0].Event}
	}
	t := open[0]
	if err := trail.Append(ctx, audit.Action{
		RequestID: "close-task/" + t.Mode + "/" + t.Kind + "/" + t.Object + "/" + uuid.NewString(),
		Actor:     who, Action: "close-task", Target: t.Object, Reason: why,
		Before: map[string]any{"kind": t.Kind, "mode": t.Mode, "account": t.Account, "state": billing.TaskOpen},
		After:  map[string]any{"state": billing.TaskDone},
	}); err != nil {
		return account.Task{}, err
	}
	closed, err := account.Done(ctx, db, t)
	if err != nil {
		return account.Task{}, err
	}
	if !closed {
		return account.Task{}, &NoOpenTaskError{Object: object}
	}
	return t, nil
}
