package operator_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// desk is one whose Temporal answers updates as it is told, and has no runs.
func desk(db *pgxpool.Pool, update func(context.Context) error) *operator.Desk {
	return &operator.Desk{DB: db, Temporal: answering{update}, Audit: audit.New(db, slog.New(slog.DiscardHandler))}
}

type answering struct{ update func(context.Context) error }

func (a answering) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, a.update(ctx)
}

func (a answering) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("no such run")
}

func says(err error) func(context.Context) error { return func(context.Context) error { return err } }

// parkedEvents inserts an event that waits for a decision about one effect, under each of the IDs.
func parkedEvents(t *testing.T, ids ...string) *pgxpool.Pool {
	t.Helper()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: x', 'stripe:' || id,
		       '{"decisions":["skip","retry"],"effects":[{"key":"finance-export:x","kind":"finance-export","state":"failed"}]}' from unnest($1::text[]) as id`, ids); err != nil {
		t.Fatal(err)
	}
	return db
}

func ask(verb, id string) operator.Ask {
	return operator.Ask{Verb: verb, ID: id, Who: "ada", Why: "looked at it"}
}

// Without a worker a decision is not answered: who decides is told why, and not left alone with a silent command.
func TestAct_NobodyAnswers_GivenUpAndExplained(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	var patience time.Duration
	_, _ = desk(db, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		patience = time.Until(deadline)
		return serviceerror.NewInternal("the test does not wait for that")
	}).Act(t.Context(), ask("retry", "evt_1"))
	if patience < 10*time.Second || patience > 20*time.Second {
		t.Errorf("asked for %s, want 20 s", patience)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := desk(db, func(ctx context.Context) error {
		<-ctx.Done()
		return serviceerror.NewDeadlineExceeded("context deadline exceeded")
	}).Act(ctx, ask("retry", "evt_1"))
	if err == nil || !strings.Contains(err.Error(), "does a worker run") || !strings.Contains(err.Error(), "with --request-id ") {
		t.Errorf("got %v, want it to say why, and how to ask again", err)
	}
}

// Every refusal says what works instead: of two people who decide at once, the second is not told that only a parked
// event takes a decision; nor is who decides about a run that was ended meanwhile, or that no worker can go on with.
func TestAct_Refused_NamesWhatWorks(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_dead")
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id) values
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_done', 'id', 'invoice.paid', now(), '\x03', 'processed', '', 'stripe:evt_done'),
		(gen_random_uuid(), 's', 'github', 'live', 'evt_replay', 'id', 'push', now(), '\x04', 'needs_review', 'suspected_replay: x', '')`); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		event, verb string
		err         error
		says, try   string
	}{
		{"evt_dead", "retry", temporal.NewApplicationError("the run waits for no decision", workflows.ErrTypeNotParked), "another decision at this moment", "events show evt_dead"},
		{"evt_dead", "retry", temporal.NewApplicationError("no unfinished effect \"x\"", workflows.ErrTypeInvalidDecision), "no unfinished effect", "events retry evt_dead"},
		{"evt_dead", "retry", serviceerror.NewNotFound("workflow execution already completed"), "has ended in Temporal", "events replay evt_dead"},
		{"evt_dead", "retry", serviceerror.NewWorkflowNotReady("Workflow Task in failed state"), "no worker can go on", "events replay evt_dead"},
		{"evt_dead", "approve", nil, "takes no approve", "events retry evt_dead"},
		{"evt_done", "retry", nil, "is for a parked run", "events replay evt_done"},
		{"evt_replay", "retry", nil, "is for a parked run", "events approve evt_replay"},
		{"evt_replay", "replay", nil, "has never run", "events approve evt_replay"},
	} {
		_, err := desk(db, says(tt.err)).Act(t.Context(), ask(tt.verb, tt.event))
		if refused := new(operator.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.says) || len(refused.Try) == 0 || !strings.Contains(refused.Try[0].Line(), tt.try) {
			t.Errorf("%s %s, Temporal says %v: got %v, want %q and %q", tt.verb, tt.event, tt.err, err, tt.says, tt.try)
		}
	}
}

// A receipt is parked a moment before its run waits: who decides in that moment is heard.
func TestAct_RunBeginsToWait_AskedAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	_, err := desk(parkedEvents(t, "evt_1"), func(context.Context) error {
		if asked++; asked < 3 {
			return temporal.NewApplicationError("the run waits for no decision", workflows.ErrTypeNotParked)
		}
		return temporal.NewApplicationError("heard", workflows.ErrTypeInvalidDecision)
	}).Act(t.Context(), ask("retry", "evt_1"))
	if err == nil || !strings.Contains(err.Error(), "heard") || asked != 3 {
		t.Errorf("asked %d times: %v; want the third answer", asked, err)
	}
}

// One request is one decision: the same again gets what it came to, another verb under its ID does not.
func TestAct_SameRequest_OneDecision(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	r, err := operator.FindEvent(t.Context(), db, "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.New(db, slog.New(slog.DiscardHandler)).Append(t.Context(), audit.Action{
		RequestID: audit.DecisionID(r.ID, "req-1"), Actor: "ada", Action: "retry", Target: "evt_1", Reason: "looked at it",
		Before: map[string]any{"receipt": r.ID, "effects_open": []string{"finance-export:x"}}, After: map[string]any{"effects": []string{"finance-export:x"}},
	}); err != nil {
		t.Fatal(err)
	}
	d := desk(db, func(context.Context) error {
		t.Error("Temporal was asked again")
		return errors.New("asked again")
	})
	again := ask("retry", "evt_1")
	again.RequestID = "req-1"
	answer, err := d.Act(t.Context(), again)
	if err != nil || !answer.Repeated || len(answer.Effects) != 1 || len(answer.About) != 1 {
		t.Errorf("got %+v, %v; want the first call's answer", answer, err)
	}
	again.Verb = "skip"
	if _, err := d.Act(t.Context(), again); err == nil || !strings.Contains(err.Error(), "stands for a retry of evt_1 by ada") {
		t.Errorf("another verb: %v", err)
	}
}

func TestAct_BadAsk_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	for name, tt := range map[string]struct {
		change func(*operator.Ask)
		says   string
	}{
		"no reason":  {func(a *operator.Ask) { a.Why = " " }, "who and why are required"},
		"no verb":    {func(a *operator.Ask) { a.Verb = "mend" }, `there is no verb "mend": use one of retry,`},
		"request ID": {func(a *operator.Ask) { a.RequestID = "a b" }, "printable ASCII"},
		"NUL":        {func(a *operator.Ask) { a.Why = "x\x00" }, "without NUL"},
		"unknown":    {func(a *operator.Ask) { a.ID = "evt_2" }, `no event "evt_2"`},
	} {
		a := ask("retry", "evt_1")
		tt.change(&a)
		if _, err := desk(db, says(errors.New("asked"))).Act(t.Context(), a); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
