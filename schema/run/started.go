package run

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Started records that a workflow runs for a receipt.
type Started struct {
	ReceiptID  string
	WorkflowID string
	RunID      string
	StartedAt  time.Time
	// Kind is Original if empty. RequestedBy, Reason and PreviousRunID are set for the other kinds only.
	Kind          Kind
	RequestedBy   string
	Reason        string
	PreviousRunID string

	id uuid.UUID
}

// MarkStarted records runs and moves their receipts from received to processing. It does not change a receipt that has
// a later status, or a run that is already recorded. If it fails, only some of the runs may be recorded; call it again
// with all of them.
func (s *Store) MarkStarted(ctx context.Context, runs ...Started) error {
	// Runs are written one by one, so that a run that Postgres rejects does not make the others fail.
	errs := make(chan error, len(runs))
	for _, r := range runs {
		id, err := receipt.ParseID(r.ReceiptID)
		if err != nil {
			return err
		}
		r.id = id
		go func() {
			_, err := s.started.Do(ctx, r)
			errs <- err
		}()
	}
	var first error
	for range runs {
		if err := <-errs; err != nil && first == nil {
			first = fmt.Errorf("mark started: %w", err)
		}
	}
	return first
}

// startedSQL reads and sorts all runs before it changes the first receipt, for the reason given at finishedSQL. If two
// runs of one receipt start in one flush, the receipt gets the workflow ID of the later one.
const startedSQL = `
with ` + schema.Lazy + `, started as materialized (
    -- A short run may have ended and recorded this itself: its receipt is not changed again.
    -- While a replay waits for its start, the run before it may be marked late: it is not the requested run.
    select i.*, held.status as was, held.workflow_id as known,
           held.rerun is null or i.kind <> 'original' and i.run_id <> coalesce(held.rerun ->> 'previous', '') as wanted
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
           as i(id, workflow_id, run_id, kind, requested_by, reason, previous_run_id, started_at)
     cross join lateral (
           select r.status, r.workflow_id, r.rerun from receipts r
            where r.id = i.id and (r.status = 'received' or r.workflow_id = '' or i.kind <> 'original')
              for no key update) held
), ran as (
    insert into runs (workflow_id, run_id, receipt_id, kind, requested_by, reason, previous_run_id, started_at)
    select workflow_id, run_id, id, kind, requested_by, reason, previous_run_id, started_at from started
    on conflict (workflow_id, run_id) do nothing
)
update receipts r
   set status = case when i.was = 'received' then 'processing' else i.was end,
       workflow_id = i.workflow_id, rerun = null, updated_at = now()
  from (select distinct on (id) * from started where wanted order by id, started_at desc) i cross join lazy
 where r.id = i.id and (i.was = 'received' or i.known = '')`

type startedRow struct {
	ID uuid.UUID
	Started
}

var startedColumns = schema.ColumnsOf[startedRow](startedSQL)

func (s *Store) flushStarted(ctx context.Context, reqs []Started) ([]struct{}, error) {
	// The lock order: receipts, then runs.
	slices.SortFunc(reqs, func(a, b Started) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.WorkflowID, b.WorkflowID),
			cmp.Compare(a.RunID, b.RunID))
	})
	rows := make([]startedRow, len(reqs))
	for i, r := range reqs {
		rows[i] = startedRow{r.id, r}
		rows[i].Kind = cmp.Or(r.Kind, Original)
	}
	_, err := s.pool.Exec(ctx, startedSQL, startedColumns.Args(rows)...)
	return make([]struct{}, len(reqs)), err
}
