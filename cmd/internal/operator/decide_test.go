package operator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

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
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, id_origin, type, received_at, body_hash, status, workflow_id) values
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'body', 'invoice.paid', now(), '\x01', 'needs_review', 'stripe:evt_1')`); err != nil {
		t.Fatal(err)
	}
	in := workflows.DecisionInput{Who: "ada", Why: "looked at it"}
	temporal := &noWorker{}
	_, _ = operator.Decide(t.Context(), db, temporal, "evt_1", workflows.UpdateRetry, in)
	if temporal.patience < 20*time.Second || temporal.patience > 30*time.Second {
		t.Errorf("asked for %s, want 30 s", temporal.patience)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := operator.Decide(ctx, db, temporal, "evt_1", workflows.UpdateRetry, in)
	if err == nil || !strings.Contains(err.Error(), "does a worker run") || !strings.Contains(err.Error(), "may still be followed") {
		t.Errorf("got %v, want it to say why, and that it may still be followed", err)
	}
}
