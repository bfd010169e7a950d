package run

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Deed is a person's action on a run in Temporal.
type Deed string

// The actions of people on runs in Temporal.
const (
	Cancelled  Deed = "cancelled"
	Terminated Deed = "terminated"
	WasReset   Deed = "reset"
)

// Intervention is an action of a person on a run that was done in Temporal, and not through pawl.
type Intervention struct {
	ReceiptID  string
	WorkflowID string
	// RunID is the run that the action is about. For a reset, RunID is the new run and PreviousRunID the run that was
	// reset.
	RunID         string
	PreviousRunID string
	What          Deed
	At            time.Time
	// Actor is the identity that Temporal recorded, and Reason the reason. Each is "" if Temporal recorded none.
	Actor, Reason string
}

// String describes the action, the person and the reason.
func (i Intervention) String() string {
	words := string(i.What) + " in Temporal"
	if i.Actor != "" {
		words += " by " + i.Actor
	}
	if i.Reason != "" {
		words += " (" + i.Reason + ")"
	}
	return words
}

// intervenedSQL also records the end of a terminated run, because such a run cannot record its own end. For a reset, it
// sets the reason of the new run, even if this run is already recorded.
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

// Intervened records a person's action on a run of a receipt. A second call changes nothing.
func (s *Store) Intervened(ctx context.Context, i Intervention) error {
	id, err := receipt.ParseID(i.ReceiptID)
	if err != nil {
		return err
	}
	return schema.Exec(ctx, s.db, fmt.Sprintf("record that run %s was %s", i.RunID, i.What), intervenedSQL,
		[16]byte(id), i.WorkflowID, i.RunID, string(i.What), i.At, i.Actor, i.Reason, i.PreviousRunID)
}
