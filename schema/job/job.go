// Package job stores the bulk jobs of operators. A job is one decision about many events. The list of events is fixed
// when the job is created, and each event gets a result.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// State is the state of a job.
type State string

// The states of a job. Finished: each item has a result. Cancelled: a person stopped the job for good, and the
// remaining items were not changed.
const (
	Running   State = "running"
	Paused    State = "paused"
	Cancelled State = "cancelled"
	Finished  State = "finished"
)

// Result is the result of an item of a job.
type Result string

// The results of an item. Done: the decision was made; the receipt of the event shows what happened next. Refused: the
// decision was not possible, and nothing was changed; the note contains the reason. Failed: all attempts failed; the
// note contains the last error.
const (
	Open    Result = ""
	Done    Result = "done"
	Refused Result = "refused"
	Failed  Result = "failed"
)

// Results lists all results.
var Results = []Result{Done, Refused, Failed}

// Job is one decision about many events.
type Job struct {
	// ID is the ID of the request that created the job. If the request is repeated, it returns this job.
	ID string `json:"id"`
	// Action is the action on each item: a verb for events, one of [OfAccounts] for accounts, or [CloseTask]. Effect
	// limits a verb to one effect. Reference is the reference of the verb "done".
	Action    string `json:"action"`
	Effect    string `json:"effect,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Filter is the filter that selected the items. The keys are the names of the command's flags.
	Filter map[string]string `json:"filter"`
	Actor  string            `json:"actor"`
	// Issuer and Subject identify the person who created the job. They are "" for the command line.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// AskedBy is the person who requested the job, if it required a second person. Actor is then the second person.
	AskedBy string `json:"requested_by,omitempty"`
	Reason  string `json:"reason"`
	// Rate is the maximum number of items that are started per second.
	Rate float64 `json:"rate"`
	// Money is the sum of the known amounts, in minor units by currency.
	Money map[string]int64 `json:"money"`
	State State            `json:"state"`
	// StateNote names the person who paused or cancelled the job, and the reason.
	StateNote string `json:"state_note,omitempty"`
	// Items is the number of items. Done, Refused and Failed are the numbers of items with these results.
	Items   int `json:"items"`
	Done    int `json:"done"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// CreatedAt is when the job was created. ChangedAt is when an item got a result or the state changed last.
	CreatedAt  time.Time  `json:"created_at"`
	ChangedAt  time.Time  `json:"changed_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// Noun returns the word for the targets of the job, for example "event".
func (j *Job) Noun() string {
	if slices.Contains(OfAccounts, j.Action) {
		return "account"
	}
	switch j.Action {
	case CloseTask:
		return "task"
	case ApplyRules:
		return "rule set"
	}
	return "event"
}

// Message describes the job in one line.
func (j *Job) Message() string {
	return fmt.Sprintf("%s of %d %ss at %g a second", j.Action, j.Items, j.Noun(), j.Rate)
}

// The actions about accounts. Recompute computes them again, Reconcile compares them with the provider's state, and
// Announce publishes their access to destinations.
const (
	Recompute = "recompute"
	Reconcile = "reconcile"
	Announce  = "announce"
)

// CloseTask is the action about tasks. It marks each task as done.
const CloseTask = "close-task"

// ApplyRules activates billing rules. The job has one item, with the hash of the rules as its target.
const ApplyRules = "apply-rules"

// OfAccounts lists the actions about accounts.
var OfAccounts = []string{Recompute, Reconcile, Announce}

// Left returns the number of items without a result.
func (j *Job) Left() int { return j.Items - j.Done - j.Refused - j.Failed }

// Item is one event, account or task of a job.
type Item struct {
	// Target is the ID of a receipt, the mode and the ID of an account ("live/acme"), or the mode, the kind and the
	// object of a task ("live/dispute/dp_1"). Name is the name for people.
	Target string `json:"target"`
	Name   string `json:"name"`
	// Seen is the last change of the event or task that the person saw when deciding. It is nil for an account.
	Seen *time.Time `json:"changed_at,omitempty"`
	// Attempts counts the failed attempts.
	Attempts int        `json:"attempts"`
	Result   Result     `json:"result"`
	Note     string     `json:"note"`
	EndedAt  *time.Time `json:"ended_at"`
}

// Store stores the jobs in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const columns = `id, action, effect, reference, filter, who as actor, issuer, subject, asked_by, why as reason, rate, money, state, state_note, items, done, refused, failed, created_at, changed_at, finished_at`

const makeSQL = `
insert into jobs (id, action, effect, reference, filter, who, issuer, subject, asked_by, why, rate, money, state, items)
values ($1, $2, $3, $4, coalesce($5::jsonb, '{}'), $6, $7, $8, $9, $10, $11, coalesce($12::jsonb, '{}'), 'running', $13)
    on conflict (id) do nothing`

// ErrTaken means that another job has the ID.
var ErrTaken = errors.New("another job has this ID")

// MakeIn creates a running job with items in the caller's transaction. It returns [ErrTaken] if the ID is in use.
func MakeIn(ctx context.Context, tx pgx.Tx, j Job, items []Item) error {
	made, err := schema.Changes(ctx, tx, "make job "+j.ID, makeSQL, j.ID, j.Action, j.Effect, j.Reference, j.Filter,
		j.Actor, j.Issuer, j.Subject, j.AskedBy, j.Reason, j.Rate, j.Money, len(items))
	switch {
	case err != nil:
		return err
	case !made:
		return fmt.Errorf("create job %s: %w", j.ID, ErrTaken)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"job_items"}, []string{"job", "target", "name", "seen"},
		pgx.CopyFromSlice(len(items),
			func(i int) ([]any, error) { return []any{j.ID, items[i].Target, items[i].Name, items[i].Seen}, nil }))
	if err != nil {
		return fmt.Errorf("create the items of job %s: %w", j.ID, err)
	}
	return nil
}

const getSQL = `select ` + columns + ` from jobs where id = $1`

// Get returns a job, or [schema.ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (*Job, error) {
	return one(ctx, s.pool, "read job "+id, getSQL, id)
}

const listSQL = `select ` + columns + ` from jobs j
 where $2 = '' or exists (select from jobs a where a.id = $2 and (j.created_at < a.created_at or j.created_at = a.created_at and j.id > a.id))
 order by created_at desc, id limit $1`

// List returns the jobs, the newest first. after is the last job of the previous page, or "".
func (s *Store) List(ctx context.Context, limit int, after string) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs", listSQL, limit, after)
}

const openSQL = `select ` + columns + ` from jobs where state in ('running', 'paused') order by created_at, id`

// Open returns the jobs that run or are paused, the oldest first.
func (s *Store) Open(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list open jobs", openSQL)
}

// unstartedSQL omits jobs of the last seconds, because their creator is about to start them.
const unstartedSQL = `
select ` + columns + ` from jobs
 where started_at is null and state = (select 'running') and created_at < now() - interval '10 seconds' order by created_at, id`

// Unstarted returns the running jobs that have no run in Temporal, because Temporal was down or the process that
// created the job died.
func (s *Store) Unstarted(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs that are not started", unstartedSQL)
}

const startedSQL = `update jobs set started_at = now() where id = $1 and started_at is null`

// Started records that Temporal accepted a job's run. A second call changes nothing: the first time is kept.
func (s *Store) Started(ctx context.Context, id string) error {
	return schema.Exec(ctx, s.pool, "record the start of job "+id, startedSQL, id)
}

const moveSQL = `
update jobs set state = $2, state_note = $3, changed_at = now(), finished_at = case when $2 = 'cancelled' then now() end
 where id = $1 and state = any($4)
returning ` + columns

// MoveIn changes the state of a job in the caller's transaction, with a note for people, if the current state is one of
// from. Otherwise it returns the unchanged job and false.
func MoveIn(ctx context.Context, db schema.Querier, id string, to State, note string,
	from ...State) (*Job, bool, error) {
	states := make([]string, len(from))
	for i, f := range from {
		states[i] = string(f)
	}
	j, err := one(ctx, db, "change job "+id, moveSQL, id, string(to), note, states)
	if errors.Is(err, schema.ErrNotFound) {
		j, err = one(ctx, db, "read job "+id, getSQL, id)
		return j, false, err
	}
	return j, err == nil, err
}

const finishSQL = `
update jobs set state = 'finished', state_note = '', changed_at = now(), finished_at = now()
 where id = $1 and state = 'running' and not exists (select from job_items i where i.job = jobs.id and i.result = '')
returning ` + columns

// Finish marks a running job as finished if each item has a result. It returns the job in both cases.
func (s *Store) Finish(ctx context.Context, id string) (*Job, error) {
	j, err := one(ctx, s.pool, "finish job "+id, finishSQL, id)
	if errors.Is(err, schema.ErrNotFound) {
		return s.Get(ctx, id)
	}
	return j, err
}

func one(ctx context.Context, db schema.Querier, doing, sql string, args ...any) (*Job, error) {
	j, err := schema.One[Job](ctx, db, doing, sql, args...)
	return &j, err
}
