package run

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Open is a receipt that has a run and is not finished.
type Open struct {
	receipt.Pending
	Status receipt.Status
	Reason string
}

const openColumns = receipt.PendingColumns + `, r.status, r.reason`

// Conditions for receipts that should have a running workflow and have not changed for the time $1. A receipt in
// processing has a run even if it has no workflow ID: the run wrote the status before its start was recorded. A parked
// receipt without a workflow ID has no run.
const (
	quietAndWorking = `r.status in ('processing', 'retrying') and r.updated_at < now() - $1::interval`
	quietAndParked  = `r.status in ('needs_review', 'dead') and r.updated_at < now() - $1::interval and r.workflow_id <> ''
       and r.reason_code not in ('` + receipt.RunTerminated + `', '` + receipt.ForeignRun + `', '` + receipt.StartRefused + `')`
)

const quietSQL = `
select r.id::text from receipts r where ` + quietAndWorking + `
union all
select r.id::text from receipts r where ` + quietAndParked

// Quiet returns the IDs of receipts that should have a running workflow and have not changed for the time d. Their
// status is processing, retrying or parked.
func (s *Store) Quiet(ctx context.Context, d time.Duration) (ids []string, err error) {
	return schema.List[string](ctx, s.db, "list quiet receipts", quietSQL, d)
}

const openSQL = `
select ` + openColumns + ` from receipts r
 where r.id = any($1::uuid[]) and r.status = any((select array['processing', 'retrying', 'needs_review', 'dead'])::text[])` // see [schema.Handling]

// Open returns the receipts among ids that are not finished.
func (s *Store) Open(ctx context.Context, ids []string) ([]Open, error) {
	return schema.List[Open](ctx, s.db, "read open receipts", openSQL, ids)
}

const quietSampleSQL = `
(select ` + openColumns + ` from receipts r where ` + quietAndWorking + ` order by random() limit $2)
union all
(select ` + openColumns + ` from receipts r where ` + quietAndParked + ` order by random() limit $2)`

// QuietSample returns a random sample of the receipts that Quiet returns: at most n that are processing or retrying,
// and at most n that are parked.
func (s *Store) QuietSample(ctx context.Context, d time.Duration, n int) ([]Open, error) {
	return schema.List[Open](ctx, s.db, "choose quiet receipts", quietSampleSQL, d, n)
}

const parkOpenSQL = `
update receipts set status = 'needs_review', reason = $4, last_error = $4, updated_at = now()
 where id = $1 and status = $2 and reason = $3`

// ParkOpen sets the status of o to needs_review, with a reason. If the receipt has changed since o was read, the run
// may have ended normally: ParkOpen then returns false and does nothing.
func (s *Store) ParkOpen(ctx context.Context, o Open, reason string) (parked bool, err error) {
	id, err := receipt.ParseID(o.ReceiptID)
	if err == nil {
		err = receipt.Next(o.Status, receipt.NeedsReview)
	}
	if err != nil {
		return false, fmt.Errorf("park receipt: %w", err)
	}
	return schema.Changes(ctx, s.db, "park receipt "+o.ReceiptID, parkOpenSQL, [16]byte(id), string(o.Status),
		o.Reason, reason)
}

// settleOpenSQL restores the outcome that the run stored when it ended.
const settleOpenSQL = `
update receipts r
   set status = n.outcome, reason = case when n.outcome = 'compensated' then 'compensated; the timeline shows the reason' else '' end,
       last_error = '', updated_at = now()
  from runs n
 where r.id = $1 and r.status = $2 and r.reason = $3
   and n.workflow_id = $4 and n.run_id = $5 and n.receipt_id = r.id and n.closed_at is not null and n.outcome in ('processed', 'compensated')`

// SettleOpen restores the outcome that the completed run of o stored. It reports whether the run had stored an outcome.
// A worker that was suspended for longer than its workflow task may have overwritten the outcome with an older state.
func (s *Store) SettleOpen(ctx context.Context, o Open, runID string) (settled bool, err error) {
	id, err := receipt.ParseID(o.ReceiptID)
	if err != nil {
		return false, fmt.Errorf("settle receipt: %w", err)
	}
	return schema.Changes(ctx, s.db, "settle receipt "+o.ReceiptID, settleOpenSQL, [16]byte(id), string(o.Status),
		o.Reason, o.WorkflowID, runID)
}
