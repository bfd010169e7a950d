package receipt

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Clock identifies the scheduled actions of one account that are due at the same time. It contains the receipt of the
// fact that scheduled them.
type Clock struct {
	Pending
	DueAccount string
	DueAt      time.Time
}

// clockSQL leases one row per account and time, because one run executes all actions that are due by then. If the run
// is not started, the row is leased again. This happens, for example, if the receipt is parked or its source is paused.
const clockSQL = `
update due d set next_at = now() + ` + lease + `
  from (select mode, object, why, at from due d
         where next_at <= now()
           and not exists (select from due o where o.account = d.account and o.mode = d.mode and o.at = d.at and (o.object, o.why) < (d.object, d.why))
         order by next_at limit $1 for no key update skip locked) t, receipts r
 where d.mode = t.mode and d.object = t.object and d.why = t.why and d.at = t.at and r.id = d.receipt_id
returning ` + PendingColumns + `, d.account as due_account, d.at as due_at,
       exists (select from pauses p where p.kind = 'source' and p.name = r.source and p.until is null) as paused`

// Clock leases up to limit rows of scheduled actions that are due, one per account and time. It skips receipts of
// paused sources, because events that wait there may change the actions.
func (s *Store) Clock(ctx context.Context, limit int) ([]Clock, error) {
	return unpaused(ctx, s.db, "lease due rows", clockSQL, limit, func(row struct {
		Clock
		Paused bool
	}) (Clock, bool) {
		return row.Clock, row.Paused
	})
}

// beginSQL reopens a receipt for a run that executes scheduled actions. It does nothing if another run of the receipt
// is running or parked.
const beginSQL = `
with held as materialized (select id, status, workflow_id from receipts where id = $1 for no key update)
update receipts r set status = 'processing', reason = '', last_error = '', updated_at = now(),
       workflow_id = case when held.status <> 'processing' and exists (select from runs where workflow_id = $2 and closed_at is not null)
                          then $3 else $2 end
  from held where r.id = held.id and (held.status in ('processed', 'compensated') or held.status = 'processing' and held.workflow_id = $2)
returning held.status as was, r.workflow_id`

// Begun is the result of [Store.Begin]: the previous status of the receipt, and the workflow ID of the run.
type Begun struct {
	Was        Status
	WorkflowID string
}

// Begin assigns a finished receipt to a run that executes scheduled actions, with the given workflow ID. If a run with
// this ID has already ended without executing the actions, Begin uses the workflow ID next. Begin returns the zero
// value and changes nothing if the receipt has another run. If the caller then fails to start the run, the dispatcher
// finds the receipt and starts it. Begin may be called twice.
func (s *Store) Begin(ctx context.Context, id, workflowID, next string) (Begun, error) {
	u, err := ParseID(id)
	if err != nil {
		return Begun{}, err
	}
	begun, err := schema.One[Begun](ctx, s.db, "reopen receipt "+id+" for due rows", beginSQL, [16]byte(u),
		workflowID, next)
	if errors.Is(err, schema.ErrNotFound) {
		err = nil
	}
	return begun, err
}

// overdueSQL searches by next_at, which is indexed. Each lease sets next_at, so next_at of an overdue row is at most
// one lease in the future.
const overdueSQL = `
select coalesce(now() - min(d.at), interval '0')
  from due d join receipts r on r.id = d.receipt_id
 where d.next_at <= now() + $1::interval and d.at <= now() and r.status not in ('needs_review', 'dead')`

// Overdue returns how long the oldest due action has waited for its run, or 0 if no action is due. It ignores actions
// of parked receipts, because these wait for a person.
func Overdue(ctx context.Context, db schema.Querier) (time.Duration, error) {
	return schema.One[time.Duration](ctx, db, "read the oldest scheduled action that is due", overdueSQL, Lease)
}
