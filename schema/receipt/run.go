package receipt

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
)

// Started says that a workflow runs for a receipt.
type Started struct {
	ReceiptID  string
	WorkflowID string
	RunID      string
	StartedAt  time.Time
	// Kind is Original when empty. RequestedBy, Reason and PreviousRunID belong to the others.
	Kind          Kind
	RequestedBy   string
	Reason        string
	PreviousRunID string

	id uuid.UUID
}

// MarkStarted records runs and moves their receipts from received to processing; a receipt that is
// further already keeps its status, and a run that is recorded already stays as it is. It may be
// called twice. An error concerns some of runs; all of them may be marked again.
func (s *Store) MarkStarted(ctx context.Context, runs ...Started) error {
	// Runs are enqueued one by one rather than as a group, so that one that is refused fails alone.
	errs := make(chan error, len(runs))
	for _, r := range runs {
		id, err := parseID(r.ReceiptID)
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

const compensatedSQL = `select count(*) from runs where outcome = 'compensated' and closed_at > now() - $1::interval`

// Compensated counts the runs that ended within the time d by taking back what they had done.
func (s *Store) Compensated(ctx context.Context, d time.Duration) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	if err := s.pool.QueryRow(ctx, compensatedSQL, d).Scan(&n); err != nil {
		return 0, fmt.Errorf("count compensated runs: %w", err)
	}
	return n, nil
}

// startedSQL sorts the runs by receipt before it changes the first: see finishedSQL. Of two runs of one receipt, the one
// that began later names its workflow.
const startedSQL = `
with started as materialized (
    -- A short run has ended and said all of this itself: its receipt is not touched again.
    select i.*, held.status as was, held.workflow_id as known
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
           as i(id, workflow_id, run_id, kind, requested_by, reason, previous_run_id, started_at)
     cross join lateral (
           select r.status, r.workflow_id from receipts r
            where r.id = i.id and (r.status = 'received' or r.workflow_id = '' or i.kind <> 'original')
              for no key update) held
), ran as (
    insert into runs (workflow_id, run_id, receipt_id, kind, requested_by, reason, previous_run_id, started_at)
    select workflow_id, run_id, id, kind, requested_by, reason, previous_run_id, started_at from started
    on conflict (workflow_id, run_id) do nothing
)
update receipts r
   set status = case when i.was = 'received' then 'processing' else i.was end,
       workflow_id = i.workflow_id, updated_at = now()
  from (select distinct on (id) * from started order by id, started_at desc) i
 where r.id = i.id and (i.was = 'received' or i.known = '')`

func (s *Store) flushStarted(ctx context.Context, reqs []Started) ([]struct{}, error) {
	// The order in which receipts are locked, and then runs.
	slices.SortFunc(reqs, func(a, b Started) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.RunID, b.RunID))
	})
	n := len(reqs)
	ids, at := make([][16]byte, n), make([]time.Time, n)
	var texts [6][]string
	for i := range texts {
		texts[i] = make([]string, n)
	}
	for i, r := range reqs {
		ids[i], at[i] = r.id, r.StartedAt
		for c, v := range [...]string{r.WorkflowID, r.RunID, string(cmp.Or(r.Kind, Original)), r.RequestedBy, r.Reason, r.PreviousRunID} {
			texts[c][i] = v
		}
	}
	_, err := s.pool.Exec(ctx, startedSQL, ids, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], at)
	return make([]struct{}, n), err
}

// Finish says how a run ended and what its receipt became.
type Finish struct {
	ReceiptID  string
	WorkflowID string
	RunID      string
	StartedAt  time.Time
	// PreviousRunID is set for a run that a reset made.
	PreviousRunID string
	// Outcome is the run's, in the flow's words.
	Outcome string
	// Status, Reason and LastError become the receipt's.
	Status    Status
	Reason    string
	LastError string
	// AsOf is when the workflow task began that finishes the run; the zero time is never too old.
	AsOf time.Time

	id uuid.UUID
}

// FinishRun closes a run and sets its receipt's status in one transaction. A run that nobody has
// recorded (a reset; or a run that ended before its start was marked) is recorded as well. It may
// be called twice: the second call changes nothing but the closing time.
//
// A status that the graph does not allow closes the run and returns a *[TransitionError]. Where a later
// workflow task has written the status, nothing is changed and [ErrOutrun] is returned.
func (s *Store) FinishRun(ctx context.Context, f Finish) error {
	id, err := parseID(f.ReceiptID)
	if err != nil {
		return err
	}
	f.id = id
	refused, err := s.finished.Do(ctx, f)
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("finish run %s of receipt %s: %w", f.RunID, f.ReceiptID, err)
	}
	return nil
}

// finishedSQL is told which statuses each of the new ones may follow ($10), so that the one table of
// transitions decides here too.
//
// Of two runs of one receipt, the one with the later task moves it. Sorting them also has all of ended read before the
// first receipt is changed: Postgres finds no row to lock that the same statement has changed, and the second run was
// neither closed nor refused.
const finishedSQL = `
with ended as materialized (
    select i.*, held.status as was, held.fence as before, coalesce(held.fence > i.fence, false) as outrun
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::timestamptz[])
           as i(id, workflow_id, run_id, previous_run_id, started_at, outcome, status, reason, last_error, follows, fence)
     cross join lateral (select r.status, r.fence from receipts r where r.id = i.id for no key update) held
), ran as (
    insert into runs (workflow_id, run_id, receipt_id, kind, previous_run_id, started_at, closed_at, outcome)
    select i.workflow_id, i.run_id, i.id, case when i.previous_run_id <> '' then 'reset' when i.workflow_id like 'due:%' then 'due' else 'original' end,
           i.previous_run_id, i.started_at, now(), i.outcome
      from ended i where not i.outrun
    on conflict (workflow_id, run_id) do update set closed_at = excluded.closed_at, outcome = excluded.outcome
), moved as (
    update receipts r
       set status = i.status, reason = i.reason, last_error = i.last_error, updated_at = now(), fence = greatest(r.fence, i.fence),
           workflow_id = case when r.workflow_id = '' then i.workflow_id else r.workflow_id end
      from (select distinct on (id) * from ended where not outrun order by id, fence desc nulls first) i
     where r.id = i.id and i.was = any(string_to_array(i.follows, ' '))
    returning r.id
)
select id, was, before, id in (select id from moved) from ended`

func (s *Store) flushFinished(ctx context.Context, reqs []Finish) ([]error, error) {
	// An upsert may meet a row once: of a run that is finished twice at the same moment the later task
	// counts, and the last of one task.
	last := map[[2]string]Finish{}
	for _, f := range reqs {
		run := [2]string{f.WorkflowID, f.RunID}
		if before, twice := last[run]; !twice || !f.AsOf.Before(before.AsOf) {
			last[run] = f
		}
	}
	rows := make([]Finish, 0, len(last))
	for _, f := range last {
		rows = append(rows, f)
	}
	// The order in which receipts are locked, and then runs.
	slices.SortFunc(rows, func(a, b Finish) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.RunID, b.RunID))
	})

	n := len(rows)
	ids, at, asOf := make([][16]byte, n), make([]time.Time, n), make([]*time.Time, n)
	var texts [8][]string
	for i := range texts {
		texts[i] = make([]string, n)
	}
	for i, f := range rows {
		ids[i], at[i], asOf[i] = f.id, f.StartedAt, fence(f.AsOf)
		follows := strings.Join(mayPrecede(f.Status), " ")
		for c, v := range [...]string{f.WorkflowID, f.RunID, f.PreviousRunID, f.Outcome, string(f.Status), f.Reason, f.LastError, follows} {
			texts[c][i] = v
		}
	}
	found, err := s.pool.Query(ctx, finishedSQL, ids, texts[0], texts[1], texts[2], at, texts[3], texts[4], texts[5], texts[6], texts[7], asOf)
	if err != nil {
		return nil, err
	}
	type state struct {
		was   Status
		fence *time.Time
		moved bool
	}
	states := map[uuid.UUID]state{}
	var id [16]byte
	var was string
	var before *time.Time
	var moved bool
	if _, err := pgx.ForEachRow(found, []any{&id, &was, &before, &moved}, func() error {
		states[id] = state{Status(was), before, moved}
		return nil
	}); err != nil {
		return nil, err
	}
	results := make([]error, len(reqs))
	for i, f := range reqs {
		switch st, held := states[f.id]; {
		case !held:
			results[i] = ErrNotFound
		case !f.AsOf.IsZero() && st.fence != nil && st.fence.After(f.AsOf):
			results[i] = ErrOutrun
		case !st.moved:
			results[i] = &TransitionError{From: st.was, To: f.Status}
		}
	}
	return results, nil
}
