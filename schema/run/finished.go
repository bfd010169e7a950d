package run

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Finished describes how a run ended, and the resulting state of its receipt.
type Finished struct {
	// Ref is the event of the receipt.
	event.Ref
	WorkflowID string
	RunID      string
	StartedAt  time.Time
	// Kind, RequestedBy, RunReason and PreviousRunID have the same meaning as in [Started]. They are stored if the
	// start of the run was not recorded.
	Kind          Kind
	RequestedBy   string
	RunReason     string
	PreviousRunID string
	// Outcome is the outcome of the run, as the flow words it.
	Outcome string
	// Status, Reason and LastError are stored in the receipt.
	Status    receipt.Status
	Reason    string
	LastError string
	// AsOf is when the workflow task that finishes the run began. With the zero time, the change is never rejected as
	// outdated.
	AsOf time.Time

	id uuid.UUID
}

// MarkFinished records the end of a run and sets the status of its receipt, in one transaction. If the start of the run
// was not recorded, it also records the run. The start is missing after a reset, or if the run ended too quickly. If
// the receipt does not match f.Ref, MarkFinished returns [schema.ErrNotFound]. A second call changes only the time of
// the end. MarkFinished returns the API version of the receipt.
//
// If the graph of statuses does not allow the change, MarkFinished records the end of the run and returns a
// *[receipt.TransitionError]. If a later workflow task has already written the status, it changes nothing and returns
// [receipt.ErrOutrun].
func (s *Store) MarkFinished(ctx context.Context, f Finished) (apiVersion string, err error) {
	id, err := receipt.ParseID(f.ReceiptID)
	if err != nil {
		return "", err
	}
	f.id = id
	ended, err := s.finished.Do(ctx, f)
	if err == nil {
		err = ended.refused
	}
	if err != nil {
		return ended.apiVersion, fmt.Errorf("finish run %s of receipt %s: %w", f.RunID, f.ReceiptID, err)
	}
	return ended.apiVersion, nil
}

// ended is a row that finishedSQL returns.
type ended struct {
	apiVersion string
	refused    error
}

// The column follows contains, for each new status, the statuses that it may replace, according to [receipt.Next].
//
// Two runs of one receipt may end in one flush. The run with the later workflow task then sets the status. The sort
// also makes Postgres read all rows of ended before it changes the first receipt. Without the sort, the statement would
// skip a receipt that it has already changed itself, and the second run would be neither closed nor rejected.
const finishedSQL = `
with ended as materialized (
    select i.*, held.api_version, held.status as was, held.fence as before, coalesce(held.fence > i.fence, false) as outrun
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::timestamptz[],
                  $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
           as i(id, workflow_id, run_id, previous_run_id, started_at, outcome, status, reason, last_error, follows, fence, kind, requested_by, run_reason,
                event_id, provider, account, mode, type)
     cross join lateral (select r.status, r.fence, r.api_version from receipts r
                          where r.id = i.id and (r.event_id, r.provider, r.account, r.mode, r.type) = (i.event_id, i.provider, i.account, i.mode, i.type)
                            for no key update) held
), ran as (
    insert into runs (workflow_id, run_id, receipt_id, kind, requested_by, reason, previous_run_id, started_at, closed_at, outcome)
    select i.workflow_id, i.run_id, i.id, case when i.kind <> '' then i.kind when i.workflow_id like 'due:%' then 'due' else 'original' end,
           i.requested_by, i.run_reason, i.previous_run_id, i.started_at, now(), i.outcome
      from ended i where not i.outrun
    on conflict (workflow_id, run_id) do update set closed_at = excluded.closed_at, outcome = excluded.outcome
), moved as (
    update receipts r
       set status = i.status, reason = i.reason, last_error = i.last_error, updated_at = now(), fence = greatest(r.fence, i.fence), rerun = null,
           workflow_id = case when r.workflow_id = '' then i.workflow_id else r.workflow_id end
      from (select distinct on (id) * from ended where not outrun order by id, fence desc nulls first) i
     where r.id = i.id and i.was = any(string_to_array(i.follows, ' '))
    returning r.id
)
select id, was, before, id in (select id from moved), api_version from ended`

// lastReports returns one report per run, in lock order: by receipt, then by run. A run may be finished twice at the
// same time, but one statement can change a row only once. The report of the later workflow task is used, and of one
// task the last report.
func lastReports(reqs []Finished) []Finished {
	last := map[[2]string]Finished{}
	for _, f := range reqs {
		run := [2]string{f.WorkflowID, f.RunID}
		if before, twice := last[run]; !twice || !f.AsOf.Before(before.AsOf) {
			last[run] = f
		}
	}
	rows := make([]Finished, 0, len(last))
	for _, f := range last {
		rows = append(rows, f)
	}
	slices.SortFunc(rows, func(a, b Finished) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.WorkflowID, b.WorkflowID),
			cmp.Compare(a.RunID, b.RunID))
	})
	return rows
}

type finishedRow struct {
	Finished
	ID      uuid.UUID
	Follows string
	Fence   *time.Time
}

var finishedColumns = schema.ColumnsOf[finishedRow](finishedSQL)

func (s *Store) flushFinished(ctx context.Context, reqs []Finished) ([]ended, error) {
	var rows []finishedRow
	for _, f := range lastReports(reqs) {
		follows := strings.Join(receipt.MayPrecede(f.Status), " ")
		rows = append(rows, finishedRow{f, f.id, follows, receipt.Fence(f.AsOf)})
	}
	found, err := s.pool.Query(ctx, finishedSQL, finishedColumns.Args(rows)...)
	if err != nil {
		return nil, err
	}
	type state struct {
		was   receipt.Status
		fence *time.Time
		moved bool
		api   string
	}
	states := map[uuid.UUID]state{}
	var id [16]byte
	var was, api string
	var before *time.Time
	var moved bool
	if _, err := pgx.ForEachRow(found, []any{&id, &was, &before, &moved, &api}, func() error {
		states[id] = state{receipt.Status(was), before, moved, api}
		return nil
	}); err != nil {
		return nil, err
	}
	results := make([]ended, len(reqs))
	for i, f := range reqs {
		st, held := states[f.id]
		results[i].apiVersion = st.api
		switch {
		case !held:
			results[i].refused = schema.ErrNotFound
		case !f.AsOf.IsZero() && st.fence != nil && st.fence.After(f.AsOf):
			results[i].refused = receipt.ErrOutrun
		case !st.moved:
			results[i].refused = &receipt.TransitionError{From: st.was, To: f.Status}
		}
	}
	return results, nil
}

const compensatedSQL = `select count(*) from runs where outcome = 'compensated' and closed_at > now() - $1::interval`

// Compensated counts the runs that ended within the last d and compensated their effects.
func (s *Store) Compensated(ctx context.Context, d time.Duration) (n int, err error) {
	return schema.One[int](ctx, s.db, "count compensated runs", compensatedSQL, d)
}
