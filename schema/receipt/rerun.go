package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rerun is a person's request to replay a receipt. It is stored until the run has been started.
type Rerun struct {
	// Request is the ID of the request, Actor the person, and Reason the reason that the person gave.
	Request string `json:"request"`
	Actor   string `json:"actor"`
	Reason  string `json:"reason"`
	// Previous is the ID of the previous run, or "" if unknown.
	Previous string `json:"previous,omitempty"`
	// Ends is set if the previous run is open but no worker can continue it. The start of the new run then terminates
	// it.
	Ends bool `json:"ends,omitempty"`
	// Release is set if the run does the effects that were withheld because the event is older than the start of
	// effects.
	Release bool `json:"release,omitempty"`
}

// ErrMoved means that the receipt has changed since the caller read it. Nothing was changed.
var ErrMoved = errors.New("the receipt has changed in the meantime")

const askRerunSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = $3::jsonb, waits = null,
       dispatch_at = now(), updated_at = now()
 where id = $1 and status = $4 and reason = $5`

// AskRerun requests another run of a receipt with the given workflow ID. The dispatcher of a running ingress starts the
// run. was and reason are the status and the reason that the caller read. If the receipt has another status or reason
// now, AskRerun returns [ErrMoved]. The caller must record the person who requested the run in the same transaction.
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
// seen are the status and the reason that the caller read. If the receipt has another status or reason now, MoveIn
// returns [ErrMoved].
func MoveIn(ctx context.Context, tx Execer, id string, was Status, seen string, to Status, reason string) error {
	if err := Next(was, to); err != nil {
		return fmt.Errorf("move receipt %s to %s: %w", id, to, err)
	}
	return moved(ctx, tx, id, leaveSQL, string(to), reason, string(was), seen)
}

const runAnewSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = null, dispatch_at = now(), updated_at = now()
 where id = $1 and status = $3 and reason = $4`

// RunAnewIn makes a receipt due for a run with the given workflow ID. was, seen and the error have the same meaning as
// in [MoveIn].
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
