package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rerun is a person's replay of a receipt, for as long as it waits for its start.
type Rerun struct {
	// Request is the ID of the request, Who asks and Why.
	Request string `json:"request"`
	Who     string `json:"who"`
	Why     string `json:"why"`
	// Previous is the run before, "" where none is known.
	Previous string `json:"previous,omitempty"`
	// Ends is set where the run before is open, and no worker can go on with it: the start ends it.
	Ends bool `json:"ends,omitempty"`
}

// ErrMoved is returned where a receipt is no longer what the caller has seen. Nothing is changed.
var ErrMoved = errors.New("the receipt has moved on meanwhile")

const askRerunSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = $3::jsonb, waits = null,
       dispatch_at = now(), updated_at = now()
 where id = $1 and status = $4 and reason = $5`

// AskRerun makes a receipt wait for another run under workflowID; the dispatcher of a running ingress starts it. was and
// reason are what the caller has seen of it: where it has moved on, the error is [ErrMoved]. It must be called in a
// transaction that also says who asked.
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

// MoveIn moves a receipt, which waits for a person and has no run, to a status in the caller's transaction. was and seen
// are what the caller has seen of it: where it has moved on, the error is [ErrMoved].
func MoveIn(ctx context.Context, tx Execer, id string, was Status, seen string, to Status, reason string) error {
	if err := Next(was, to); err != nil {
		return fmt.Errorf("move receipt %s to %s: %w", id, to, err)
	}
	return moved(ctx, tx, id, leaveSQL, string(to), reason, string(was), seen)
}

const runAnewSQL = `
update receipts set status = 'received', reason = '', last_error = '', workflow_id = $2, rerun = null, dispatch_at = now(), updated_at = now()
 where id = $1 and status = $3 and reason = $4`

// RunAnewIn has a receipt started under a workflow ID of its own, as [MoveIn] does.
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
