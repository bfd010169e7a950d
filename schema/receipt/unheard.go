package receipt

import (
	"context"
	"fmt"
	"time"
)

// Unheard is a receipt that has had a run for a while and has not come to rest.
type Unheard struct {
	Pending
	Status Status
	Reason string
}

// unheardSQL goes through the partial index of open receipts. dispatch_at, which means nothing for a
// receipt that was started, holds the lease.
const unheardSQL = `
update receipts r set dispatch_at = now() + $3::interval
  from (select id from receipts
         where status in ('processing', 'retrying', 'needs_review', 'dead') and workflow_id <> ''
           and updated_at < now() - $2::interval and dispatch_at <= now()
         order by dispatch_at limit $1 for no key update skip locked) quiet
 where r.id = quiet.id
returning r.id::text as receipt_id, r.provider, r.account, r.mode, r.event_id, r.type, r.object_id, r.received_at, r.workflow_id, r.status, r.reason`

// Unheard takes up to limit open receipts of which nothing was heard for the time quiet, so that somebody
// looks whether their runs are still there. For the length of lease no other look takes them.
func (s *Store) Unheard(ctx context.Context, limit int, quiet, lease time.Duration) ([]Unheard, error) {
	unheard, err := query[Unheard](ctx, s, unheardSQL, limit, quiet, lease)
	if err != nil {
		return nil, fmt.Errorf("take unheard receipts: %w", err)
	}
	return unheard, nil
}

const parkUnheardSQL = `
update receipts set status = 'needs_review', reason = $4, last_error = $4, updated_at = now()
 where id = $1 and status = $2 and reason = $3`

// ParkUnheard moves u to needs_review with a reason, unless it has moved on since it was taken: its run
// may have ended well meanwhile. It reports whether it did.
func (s *Store) ParkUnheard(ctx context.Context, u Unheard, reason string) (parked bool, err error) {
	id, err := parseID(u.ReceiptID)
	if err == nil {
		err = Next(u.Status, NeedsReview)
	}
	if err != nil {
		return false, fmt.Errorf("park unheard receipt: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, parkUnheardSQL, [16]byte(id), string(u.Status), u.Reason, reason)
	if err != nil {
		return false, fmt.Errorf("park unheard receipt %s: %w", u.ReceiptID, err)
	}
	return tag.RowsAffected() > 0, nil
}

// settleUnheardSQL gives a receipt back the outcome that its run has recorded with its end.
const settleUnheardSQL = `
update receipts r
   set status = n.outcome, reason = case when n.outcome = 'compensated' then 'taken back; the timeline tells why' else '' end,
       last_error = '', updated_at = now()
  from runs n
 where r.id = $1 and r.status = $2 and r.reason = $3
   and n.workflow_id = $4 and n.run_id = $5 and n.receipt_id = r.id and n.closed_at is not null and n.outcome in ('processed', 'compensated')`

// SettleUnheard moves u back to the outcome of its run, which is complete, where that has recorded one here: a
// worker that was away for longer than its task may have moved the receipt afterwards, with what it knew. It
// reports whether it did.
func (s *Store) SettleUnheard(ctx context.Context, u Unheard, runID string) (settled bool, err error) {
	id, err := parseID(u.ReceiptID)
	if err != nil {
		return false, fmt.Errorf("settle unheard receipt: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, settleUnheardSQL, [16]byte(id), string(u.Status), u.Reason, u.WorkflowID, runID)
	if err != nil {
		return false, fmt.Errorf("settle unheard receipt %s: %w", u.ReceiptID, err)
	}
	return tag.RowsAffected() > 0, nil
}
