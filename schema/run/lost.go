package run

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Open is a receipt that has a run and has not come to rest.
type Open struct {
	receipt.Pending
	Status receipt.Status
	Reason string
}

const openColumns = receipt.PendingColumns + `, r.status, r.reason`

// Receipts that were silent for the time $1, though a run of theirs should go on. A working one without a workflow ID
// has a run: the run wrote the status before anybody could record its start. A parked one without a workflow ID never
// ran.
const (
	quietAndWorking = `r.status in ('processing', 'retrying') and r.updated_at < now() - $1::interval`
	quietAndParked  = `r.status in ('needs_review', 'dead') and r.updated_at < now() - $1::interval and r.workflow_id <> ''
       and r.reason_code not in ('` + receipt.RunEnded + `', '` + receipt.AnotherRun + `', '` + receipt.StartRefused + `')`
)

const quietSQL = `
select r.id::text from receipts r where ` + quietAndWorking + `
union all
select r.id::text from receipts r where ` + quietAndParked

// Quiet returns the IDs of the receipts that were silent for the time d, though they have not come to rest and a run
// of theirs should go on: working, or parked.
func (s *Store) Quiet(ctx context.Context, d time.Duration) (ids []string, err error) {
	return schema.List[string](ctx, s.db, "list quiet receipts", quietSQL, d)
}

const openSQL = `
select ` + openColumns + ` from receipts r
 where r.id = any($1::uuid[]) and r.status = any((select array['processing', 'retrying', 'needs_review', 'dead'])::text[])` // see [schema.Handling]

// Open returns those of the receipts ids that have not come to rest.
func (s *Store) Open(ctx context.Context, ids []string) ([]Open, error) {
	return schema.List[Open](ctx, s.db, "read open receipts", openSQL, ids)
}

const quietSampleSQL = `
(select ` + openColumns + ` from receipts r where ` + quietAndWorking + ` order by random() limit $2)
union all
(select ` + openColumns + ` from receipts r where ` + quietAndParked + ` order by random() limit $2)`

// QuietSample returns some of the receipts that Quiet lists, by chance: up to n of those that work, and as many of
// those that are parked.
func (s *Store) QuietSample(ctx context.Context, d time.Duration, n int) ([]Open, error) {
	return schema.List[Open](ctx, s.db, "choose quiet receipts", quietSampleSQL, d, n)
}

const parkOpenSQL = `
update receipts set status = 'needs_review', reason = $4, last_error = $4, updated_at = now()
 where id = $1 and status = $2 and reason = $3`

// ParkOpen moves o to needs_review with a reason, unless it has moved on since it was taken: its run
// may have ended well meanwhile. It reports whether it did.
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

// settleOpenSQL gives a receipt back the outcome that its run has recorded with its end.
const settleOpenSQL = `
update receipts r
   set status = n.outcome, reason = case when n.outcome = 'compensated' then 'taken back; the timeline tells why' else '' end,
       last_error = '', updated_at = now()
  from runs n
 where r.id = $1 and r.status = $2 and r.reason = $3
   and n.workflow_id = $4 and n.run_id = $5 and n.receipt_id = r.id and n.closed_at is not null and n.outcome in ('processed', 'compensated')`

// SettleOpen moves o back to the outcome that its complete run has recorded here, and reports whether it did. A
// worker that was away for longer than its task may have moved the receipt afterwards, with older knowledge.
func (s *Store) SettleOpen(ctx context.Context, o Open, runID string) (settled bool, err error) {
	id, err := receipt.ParseID(o.ReceiptID)
	if err != nil {
		return false, fmt.Errorf("settle receipt: %w", err)
	}
	return schema.Changes(ctx, s.db, "settle receipt "+o.ReceiptID, settleOpenSQL, [16]byte(id), string(o.Status),
		o.Reason, o.WorkflowID, runID)
}
