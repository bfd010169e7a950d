package job_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	operatorjob "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// told stores the last update that a run received.
type told struct {
	decide.Temporal
	input *workflows.DecisionInput
}

type accepted struct{ client.WorkflowUpdateHandle }

func (accepted) Get(context.Context, any) error { return nil }

func (t told) UpdateWorkflow(_ context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	*t.input = options.Args[0].(workflows.DecisionInput)
	return accepted{}, nil
}

// late simulates a run that accepts decisions only after several attempts.
type late struct {
	told
	asked *int
	until time.Time
}

func (l late) UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if *l.asked++; time.Now().Before(l.until) {
		return nil, temporal.NewApplicationError("no decision is waited for", workflows.ErrTypeNotParked)
	}
	return l.told.UpdateWorkflow(ctx, options)
}

// If a job marks many effects as done, each run receives where the effect can be verified.
func TestJobWorker_Done_TellsTheReference(t *testing.T) {
	t.Parallel()
	db, kept, item := jobOfOne(t)
	var input workflows.DecisionInput
	log := slog.New(slog.DiscardHandler)
	w := &operatorjob.Worker{Jobs: job.New(db), Log: log, Operator: &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, log), Temporal: told{input: &input}}}
	if err := w.Take(t.Context(), kept, item); err != nil {
		t.Fatal(err)
	}
	if kept, err := job.New(db).Get(t.Context(), kept.ID); err != nil || kept.Done != 1 || input.Reference != "journal 7" || input.Effect != "finance-export" {
		t.Errorf("%+v, %v; the run was told %+v", kept, err, input)
	}
}

// If a run's receipt is parked but the run is not ready yet, the job tries the item again after other items. The item
// is not refused.
func TestJobWorker_RunBeginsToWait_TriedAgain(t *testing.T) {
	t.Parallel()
	db, kept, item := jobOfOne(t)
	var input workflows.DecisionInput
	asked, log := 0, slog.New(slog.DiscardHandler)
	slow := late{told: told{input: &input}, asked: &asked, until: time.Now().Add(7500 * time.Millisecond)}
	jobs := job.New(db)
	w := &operatorjob.Worker{Jobs: jobs, Log: log, Operator: &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, log), Temporal: slow}}
	for i := range 2 {
		items, err := jobs.Take(t.Context(), kept.ID, 1)
		if err != nil || len(items) != 1 || items[0].Attempts != i {
			t.Fatalf("to be accepted: %+v, %v; want %s after %d attempts", items, err, item.Target, i)
		}
		if err := w.Take(t.Context(), kept, items[0]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := jobs.Get(t.Context(), kept.ID)
	if err != nil || got.Done != 1 || got.Refused != 0 || asked < 3 {
		t.Errorf("%+v, %v, asked %d times; want it done at the second try", got, err, asked)
	}
}

// jobOfOne is a job about one effect of one parked event.
func jobOfOne(t *testing.T) (*pgxpool.Pool, *job.Job, job.Item) {
	t.Helper()
	db := schematest.New(t)
	const receipt = "00000000-0000-0000-0000-000000000001"
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		values ($1, 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: x', 'stripe:evt_1',
		'{"decisions":["done"],"effects":[{"key":"finance-export:x","kind":"finance-export","state":"failed","by_hand":true}]}')`, receipt); err != nil {
		t.Fatal(err)
	}
	j, items := job.Job{ID: "done-1", Action: event.Done.Name, Effect: "finance-export", Reference: "journal 7", Actor: "ada", Reason: "booked by hand", Rate: 1},
		[]job.Item{{Target: receipt, Name: "evt_1"}}
	if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return job.MakeIn(t.Context(), tx, j, items) }); err != nil {
		t.Fatal(err)
	}
	kept, err := job.New(db).Get(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	return db, kept, items[0]
}
