package operator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// find returns the receipt of an event.
func find(t *testing.T, db timeline.DB, id string) *timeline.Receipt {
	t.Helper()
	r, err := operator.FindEvent(t.Context(), db, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noWorker is a Temporal that takes updates and has nobody to answer them. It remembers how long it was asked.
type noWorker struct{ patience time.Duration }

func (n *noWorker) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if deadline, ok := ctx.Deadline(); ok {
		n.patience = time.Until(deadline)
	}
	if n.patience > time.Second {
		return nil, serviceerror.NewInternal("the test does not wait for that")
	}
	<-ctx.Done()
	return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
}

// Without a worker a decision is not answered: who decides is told why, and not left alone with a silent command.
func TestDecide_NobodyAnswers_GivenUpAndExplained(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id) values
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'needs_review', 'stripe:evt_1')`); err != nil {
		t.Fatal(err)
	}
	in := workflows.DecisionInput{Who: "ada", Why: "looked at it"}
	nobody := &noWorker{}
	_, _ = operator.Decide(t.Context(), nobody, "evt_1", find(t, db, "evt_1"), workflows.UpdateRetry, in)
	if nobody.patience < 20*time.Second || nobody.patience > 30*time.Second {
		t.Errorf("asked for %s, want 30 s", nobody.patience)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := operator.Decide(ctx, nobody, "evt_1", find(t, db, "evt_1"), workflows.UpdateRetry, in)
	if err == nil || !strings.Contains(err.Error(), "does a worker run") || !strings.Contains(err.Error(), "may still be followed") {
		t.Errorf("got %v, want it to say why, and that it may still be followed", err)
	}
}

// refusing is a Temporal whose runs take no decision.
type refusing struct{ err error }

func (r refusing) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, r.err
}

// A run that is older than its flow may not be able to follow it any more. Temporal says only that a task failed.
func TestDecide_RunIsStuck_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id) values
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'dead', 'stripe:evt_1')`); err != nil {
		t.Fatal(err)
	}
	stuck := refusing{serviceerror.NewWorkflowNotReady("Unable to perform workflow execution update due to Workflow Task in failed state.")}
	_, err := operator.Decide(t.Context(), stuck, "evt_1", find(t, db, "evt_1"), workflows.UpdateRetry, workflows.DecisionInput{Who: "ada", Why: "looked at it"})
	if err == nil || !strings.Contains(err.Error(), "reset the workflow") {
		t.Errorf("got %v, want it to say what to do", err)
	}
}

// Of two people who decide at once, the second is not told that the event is parked and that only a parked one takes
// a decision; nor is who decides about a run that was ended meanwhile.
func TestDecide_AnotherCameFirst_Explained(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id) values
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_review', 'id', 'invoice.paid', now(), '\x01', 'needs_review', 'stripe:evt_review'),
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_dead', 'id', 'invoice.paid', now(), '\x02', 'dead', 'stripe:evt_dead'),
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_done', 'id', 'invoice.paid', now(), '\x03', 'processed', 'stripe:evt_done'),
		(gen_random_uuid(), 's', 'github', 'live', 'evt_replay', 'id', 'push', now(), '\x04', 'needs_review', '')`); err != nil {
		t.Fatal(err)
	}
	decided := temporal.NewApplicationError("the run waits for no decision", workflows.ErrTypeNotParked)
	ended := serviceerror.NewNotFound("workflow execution already completed")
	const first, only = "another one came first, or the run has ended", "only a parked event"
	for _, tt := range []struct {
		event string
		err   error
		want  string
	}{
		{"evt_review", decided, first},
		{"evt_dead", decided, first},
		{"evt_dead", ended, first},
		{"evt_done", ended, only},
		{"evt_replay", nil, only},
	} {
		_, err := operator.Decide(t.Context(), refusing{tt.err}, tt.event, find(t, db, tt.event), workflows.UpdateRetry, workflows.DecisionInput{Who: "ada", Why: "looked at it"})
		if refused := new(operator.NotParkedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, Temporal says %v: got %v, want %q", tt.event, tt.err, err, tt.want)
		}
	}
}
