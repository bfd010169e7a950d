package receipt

import (
	"context"
	"fmt"
	"time"
)

// Clock is what is due of an account, and the receipt of the fact that made it due.
type Clock struct {
	Pending
	DueAccount string
	DueAt      time.Time
}

// clockSQL takes one row for each account and time: the run that is started for it does all that is due by then. What is
// not started, because its receipt is parked, say, is looked at again after a lease.
const clockSQL = `
update due d set next_at = now() + ` + lease + `
  from (select mode, object, why, at from due d
         where next_at <= now()
           and not exists (select from due o where o.account = d.account and o.mode = d.mode and o.at = d.at and (o.object, o.why) < (d.object, d.why))
         order by next_at limit $1 for no key update skip locked) t, receipts r
 where d.mode = t.mode and d.object = t.object and d.why = t.why and d.at = t.at and r.id = d.receipt_id
returning r.id::text as receipt_id, r.provider, r.account, r.mode, r.event_id, r.type, r.object_id, r.received_at, r.workflow_id, r.relay_of,
       d.account as due_account, d.at as due_at`

// Clock takes up to limit accounts of which something is due, for a while.
func (s *Store) Clock(ctx context.Context, limit int) ([]Clock, error) {
	due, err := query[Clock](ctx, s, clockSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("take what is due: %w", err)
	}
	return due, nil
}

// beginSQL reopens a receipt for a run of the clock. One that has another run at work, or a parked one, is left to that.
const beginSQL = `
with held as materialized (select id, status, workflow_id from receipts where id = $1 for no key update)
update receipts r set status = 'processing', workflow_id = $2, reason = '', last_error = '', updated_at = now()
  from held where r.id = held.id and (held.status in ('processed', 'compensated') or held.status = 'processing' and held.workflow_id = $2)
returning held.status`

// Begin gives a receipt that is at rest to a run of the clock, and returns the status that it had: "" where it has
// another run, and is left alone. Where the run is not started after all, the dispatcher finds the receipt without one. It
// may be called twice.
func (s *Store) Begin(ctx context.Context, id, workflowID string) (was Status, err error) {
	u, err := parseID(id)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	switch err := s.pool.QueryRow(ctx, beginSQL, [16]byte(u), workflowID).Scan(&was); {
	case notFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reopen receipt %s for what is due: %w", id, err)
	}
	return was, nil
}
