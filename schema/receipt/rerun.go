package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rerun is a person's request to replay a receipt. It is stored until the run is started.
type Rerun struct {
	// Request is the ID of the request, Who the person, and Why the reason.
	Request string `json:"request"`
	Who     string `json:"who"`
	Why     string `json:"why"`
	// Previous is the previous run, or "" if unknown.
	Previous string `json:"previous,omitempty"`
	// Ends: the previous run is open, but no worker can continue it. The start terminates it.
	Ends bool `json:"ends,omitempty"`
	// Release: the run does the effects that were withheld because the event occurred before effects began.
	Release bool `json:"release,omitempty"`
}

// ErrMoved means that a receipt has changed since the caller read it. Nothing is changed.
var ErrMoved = errors.New("the receipt has moved on meanwhile")

const askRerunSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = $3::jsonb, waits = null,
       dispatch_at = now(), updated_at = now()
 where id = $1 and status = $4 and reason = $5`

// AskRerun makes a receipt wait for another run under workflowID, which the dispatcher of a running ingress starts. was
// and reason are the receipt's status and reason as the caller read them. If they have changed, the error is
// [ErrMoved]. The caller must record the person in the same transaction.
func AskRerun(ctx context.Context, tx Execer, id, workflowID string, was Status, reason string, r Rerun) error {
	if err := Next(was, Received); err != nil {
		return fmt.Errorf("replay receipt %s: %w", id, err)
	}
	return moved(ctx, tx, id, askRerunSQL, workflowID, r, string(was), reason)
}

const leaveSQL = `
update receipts set status = $2, reason = $3, last_error = '', updated_at = now(), dispatch_at = now(),
       rerun = case when $2 = 'received' then rerun end
 where id = $1 and status = $4 and reason = $5`

// MoveIn changes the status of a receipt that waits for a person and has no run, in the caller's transaction. was and
// seen are the receipt's status and reason as the caller read them. If they have changed, the error is [ErrMoved].
func MoveIn(ctx context.Context, tx Execer, id string, was Status, seen string, to Status, reason string) error {
	if err := Next(was, to); err != nil {
		return fmt.Errorf("move receipt %s to %s: %w", id, to, err)
	}
	return moved(ctx, tx, id, leaveSQL, string(to), reason, string(was), seen)
}

const runAnewSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = null, dispatch_at = now(), updated_at = now()
 where id = $1 and status = $3 and reason = $4`

// RunAnewIn makes a receipt due for a start under workflowID. was, seen and the error are as in [MoveIn].
func RunAnewIn(ctx context.Context, tx Execer, id string, was Status, seen, workflowID string) error {
	return moved(ctx, tx, id, runAnewSQL, workflowID, string(was), seen)
}

// Execer is a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func moved(ctx context.Context, tx Execer, id, sql string, args ...any) error {
	u, err := ParseID(id)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, sql, append([]any{[16]byte(u)}, args...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrMoved
	}
	if err != nil {
		return fmt.Errorf("receipt %s: %w", id, err)
	}
	return nil
}
