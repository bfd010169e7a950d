package run

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Deed is what somebody did to a run.
type Deed string

// The deeds of people on runs in Temporal.
const (
	Cancelled  Deed = "cancelled"
	Terminated Deed = "terminated"
	WasReset   Deed = "reset"
)

// Intervention is what somebody did to a run in Temporal, where pawl was not asked.
type Intervention struct {
	ReceiptID  string
	WorkflowID string
	// RunID is the run that it was done to; of a reset the run that it made, and PreviousRunID the one that was reset.
	RunID         string
	PreviousRunID string
	What          Deed
	At            time.Time
	// The identity that was given to Temporal, and the reason; each "" when Temporal does not know it.
	Who, Why string
}

// String tells the deed, the person and the reason.
func (i Intervention) String() string {
	words := string(i.What) + " in Temporal"
	if i.Who != "" {
		words += " by " + i.Who
	}
	if i.Why != "" {
		words += " (" + i.Why + ")"
	}
	return words
}

// intervenedSQL also closes a run that was terminated, which can say nothing any more, and says of one that a reset
// made why it is there, whoever has recorded it before.
const intervenedSQL = `
with noted as (
    insert into interventions (receipt_id, workflow_id, run_id, what, at, who, why)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (workflow_id, run_id, what) do nothing
), closed as (
    update runs set closed_at = $5, outcome = 'terminated'
     where workflow_id = $2 and run_id = $3 and $4 = 'terminated' and closed_at is null
)
insert into runs (workflow_id, run_id, receipt_id, kind, requested_by, reason, previous_run_id, started_at)
select $2, $3, $1, 'reset', $6, $7, $8, $5 where $4 = 'reset'
on conflict (workflow_id, run_id) do update
   set kind = 'reset', requested_by = excluded.requested_by, reason = excluded.reason, previous_run_id = excluded.previous_run_id`

// Intervened records what somebody did to a run of a receipt. It may be called twice.
func (s *Store) Intervened(ctx context.Context, i Intervention) error {
	id, err := receipt.ParseID(i.ReceiptID)
	if err != nil {
		return err
	}
	return schema.Exec(ctx, s.db, fmt.Sprintf("record that run %s was %s", i.RunID, i.What), intervenedSQL,
		[16]byte(id), i.WorkflowID, i.RunID, string(i.What), i.At, i.Who, i.Why, i.PreviousRunID)
}
