package operator_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// over returns an operator whose simulated Temporal gives the configured answers to updates, and has no runs.
func over(db *pgxpool.Pool, update func(context.Context) error) *decide.Operator {
	return &decide.Operator{Verbs: operator.Verbs, DB: db, Temporal: answering{update: update}, Audit: audit.New(db, slog.New(slog.DiscardHandler))}
}

type answering struct {
	decide.Temporal
	update func(context.Context) error
}

func (a answering) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, a.update(ctx)
}

func (a answering) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("no such run")
}

func says(err error) func(context.Context) error { return func(context.Context) error { return err } }

// parkedEvents inserts, for each ID, an event that waits for a decision about one effect.
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

func ask(verb, id string) decide.Decision {
	return decide.Decision{Verb: verb, Target: id, Actor: "ada", Reason: "looked at it"}
}

// If no worker runs, a decision fails with an error that gives the reason, and the command does not hang.
func TestDecide_NobodyAnswers_GivenUpAndExplained(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	var patience time.Duration
	_, _ = over(db, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		patience = time.Until(deadline)
		return serviceerror.NewInternal("the test does not wait for that")
	}).Decide(t.Context(), ask("retry", "evt_1"))
	if patience < 10*time.Second || patience > 20*time.Second {
		t.Errorf("asked for %s, want 20 s", patience)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := over(db, func(ctx context.Context) error {
		<-ctx.Done()
		return serviceerror.NewDeadlineExceeded("context deadline exceeded")
	}).Decide(ctx, ask("retry", "evt_1"))
	if err == nil || !strings.Contains(err.Error(), "that a worker runs") || !strings.Contains(err.Error(), "with --request-id ") {
		t.Errorf("got %v, want it to say why, and how to ask again", err)
	}
}

// Every refusal names a command that works. This includes the second of two concurrent decisions, a run that ended
// meanwhile, and a run that no worker can continue.
func TestDecide_Refused_NamesWhatWorks(t *testing.T) {
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
		{"evt_dead", "retry", temporal.NewApplicationError("no unfinished effect \"x\"", workflows.ErrTypeInvalidDecision), "no unfinished effect", "events retry evt_dead"},
		{"evt_dead", "retry", serviceerror.NewNotFound("workflow execution already completed"), "has ended in Temporal", "events replay evt_dead"},
		{"evt_dead", "retry", serviceerror.NewWorkflowNotReady("Workflow Task in failed state"), "a failing workflow task", "events replay evt_dead"},
		{"evt_dead", "approve", nil, "does not accept approve", "events retry evt_dead"},
		{"evt_done", "retry", nil, "its run has ended", "events replay evt_done"},
		{"evt_replay", "retry", nil, "it has not run: approve or reject it", "events approve evt_replay"},
		{"evt_replay", "replay", nil, "there is nothing to replay", "events approve evt_replay"},
	} {
		_, err := over(db, says(tt.err)).Decide(t.Context(), ask(tt.verb, tt.event))
		if refused := new(decide.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.says) || len(refused.Try) == 0 || !strings.Contains(refused.Try[0].Line(), tt.try) {
			t.Errorf("%s %s, Temporal says %v: got %v, want %q and %q", tt.verb, tt.event, tt.err, err, tt.says, tt.try)
		}
	}
}

// A receipt is marked as parked a moment before its run accepts decisions. A decision in that moment is tried again
// until the run accepts it.
func TestDecide_RunBeginsToWait_AskedAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	_, err := over(parkedEvents(t, "evt_1"), func(context.Context) error {
		if asked++; asked < 3 {
			return temporal.NewApplicationError("the run is not waiting for a decision", workflows.ErrTypeNotParked)
		}
		return temporal.NewApplicationError("heard", workflows.ErrTypeInvalidDecision)
	}).Decide(t.Context(), ask("retry", "evt_1"))
	if err == nil || !strings.Contains(err.Error(), "heard") || asked != 3 {
		t.Errorf("asked %d times: %v; want the third answer", asked, err)
	}
}

// If the run does not wait for a decision although its receipt is parked, the run has not refused the decision, and
// the request can be repeated.
func TestDecide_RunDoesNotWait_NotRefused(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	d := ask("retry", "evt_1")
	d.Request = "req-1"
	_, err := over(db, says(temporal.NewApplicationError("the run is not waiting for a decision", workflows.ErrTypeNotParked))).Decide(t.Context(), d)
	if refused := new(decide.RefusedError); err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "--request-id req-1, which does not decide a second time") {
		t.Errorf("got %v", err)
	}
	if got := trail(t, db); !slices.Equal(got, []string{"retry"}) {
		t.Errorf("the trail has %q, want the decision alone", got)
	}
}

// trail returns the rows of the audit trail.
func trail(t *testing.T, db *pgxpool.Pool) (actions []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), `select action from operator_actions order by id`)
	if err != nil {
		t.Fatal(err)
	}
	if actions, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return actions
}

// One request makes one decision: pawl records it before it sends it to the run, and sends it again until the run has
// accepted it. Afterwards, repeated requests return the recorded result, and another verb with the same request ID is
// refused.
func TestDecide_SameRequest_OneDecision(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	told := 0
	o := over(db, func(context.Context) error {
		if told++; !slices.Equal(trail(t, db), []string{"retry"}) {
			t.Errorf("the run is told, and the trail has %q", trail(t, db))
		}
		return errors.New("connection lost")
	})
	d := ask("retry", "evt_1")
	d.Request = "req-1"
	for range 2 {
		if _, err := o.Decide(t.Context(), d); err == nil || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("not told: %v", err)
		}
	}
	// the run has accepted the decision
	if _, err := db.Exec(t.Context(), `update receipts set status = 'processing', reason = '', updated_at = now()`); err != nil {
		t.Fatal(err)
	}
	answer, err := o.Decide(t.Context(), d)
	if err != nil || !answer.Repeated || !strings.Contains(answer.Message, "evt_1 is processing now") {
		t.Fatalf("got %+v, %v; want the first call's answer", answer, err)
	}
	if r := answer.Result.(*event.Result); len(r.Effects) != 1 || len(r.About) != 1 || told != 2 || len(trail(t, db)) != 1 {
		t.Errorf("answered %+v, told %d times, recorded %q; want one effect, 2 and one retry", r, told, trail(t, db))
	}
	d.Verb = "skip"
	if _, err := o.Decide(t.Context(), d); err == nil || !strings.Contains(err.Error(), "belongs to retry of evt_1") {
		t.Errorf("another verb: %v", err)
	}
}

// pawl refuses a request ID that is repeated with other arguments, and changes nothing.
func TestDecide_SameRequest_OtherArguments_Refused(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1", "evt_2")
	o := over(db, says(errors.New("connection lost")))
	d := ask("retry", "evt_1")
	d.Request = "req-1"
	_, _ = o.Decide(t.Context(), d)
	for name, change := range map[string]func(*decide.Decision){
		"effect": func(d *decide.Decision) { d.Effect = "finance-export:x" }, "why": func(d *decide.Decision) { d.Reason = "another reason" },
		"verb": func(d *decide.Decision) { d.Verb = "skip" },
	} {
		other := d
		change(&other)
		if _, err := o.Decide(t.Context(), other); !decide.IsFault(err, decide.Reused) {
			t.Errorf("another %s: %v, want that the request is reused", name, err)
		}
	}
	d.Target = "evt_2" // the same ID with another target is a different request
	if _, err := o.Decide(t.Context(), d); err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("another event: %v", err)
	}
	if got := trail(t, db); !slices.Equal(got, []string{"retry", "retry"}) {
		t.Errorf("the trail has %q", got)
	}
}

// A reveal never counts as repeated: with a used request ID it shows the current data, and the audit trail records
// each reveal.
func TestDecide_Reveal_NeverRepeated(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	if _, err := db.Exec(t.Context(), `insert into receipt_bodies (receipt_id, headers, body) select id, '{}', '{"a":1}' from receipts`); err != nil {
		t.Fatal(err)
	}
	o := over(db, says(nil))
	requests := map[string]bool{}
	for range 2 {
		a, err := o.Decide(t.Context(), decide.Decision{Verb: "reveal", Target: "evt_1", Reason: "the customer asks", By: admin, Request: "req-1"})
		if err != nil || a.Repeated {
			t.Fatalf("%+v, %v", a, err)
		}
		requests[a.Request] = true
	}
	if got := trail(t, db); !slices.Equal(got, []string{"reveal", "reveal"}) || len(requests) != 2 {
		t.Errorf("the trail has %q, requests %v", got, requests)
	}
}

// If another decision reached the run first, pawl records the decision with the refusal, and does not send it again.
func TestDecide_RunRefuses_RefusalRecorded(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	told := 0
	o := over(db, func(context.Context) error {
		told++
		return temporal.NewApplicationError("it takes skip", workflows.ErrTypeInvalidDecision)
	})
	d := ask("retry", "evt_1")
	d.Request = "req-1"
	_, err := o.Decide(t.Context(), d)
	if _, refused := errors.AsType[*decide.RefusedError](err); !refused {
		t.Errorf("got %v, want it refused", err)
	}
	if _, err := o.Decide(t.Context(), d); err != nil || told != 1 || !slices.Equal(trail(t, db), []string{"retry", "refuse-retry"}) {
		t.Errorf("repeated: %v, told %d times, the trail has %q", err, told, trail(t, db))
	}
}

// pawl checks the status of the receipt before it records anything, and a preview gives the same message.
func TestDecide_Refused_NothingRecorded_PreviewedAlike(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	o := over(db, says(errors.New("asked")))
	for says, d := range map[string]decide.Decision{
		`no unfinished effect "x"`:           {Verb: "retry", Args: decide.Args{Effect: "x"}},
		"its run does not accept compensate": {Verb: "compensate"},
		"cancel is for a run that is in":     {Verb: "cancel"},
		"its run waits for a decision":       {Verb: "run"},
		"no open task":                       {Verb: "close-task"},
		"unknown verb":                       {Verb: "mend"},
		"approve is for a run that waits":    {Verb: "approve", Target: "evt_done"},
	} {
		d.Actor, d.Reason = "ada", "x"
		if d.Target == "" {
			d.Target = "evt_1"
		}
		if d.Target == "evt_done" {
			if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id)
				values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_done', 'id', 'invoice.paid', now(), '\x01', 'processed', 'stripe:evt_done')`); err != nil {
				t.Fatal(err)
			}
		}
		_, err := o.Decide(t.Context(), d)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", d.Verb, err, says)
		}
		p, err := o.Preview(t.Context(), d)
		if err == nil && !strings.Contains(p.Refused, says) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("preview of %s: %+v, %v, want %q", d.Verb, p, err, says)
		}
	}
	if got := trail(t, db); len(got) != 0 {
		t.Errorf("recorded %q", got)
	}
}

// Each refusal contains the state of the event and the purpose of the verb, and the two agree with the refusal.
func TestDecide_Refused_SaysHowItStands(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_parked")
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', 'invoice.paid', now(), '\x01', status, reason, workflow
		  from (values ('evt_replay', 'needs_review', 'suspected_replay: x', ''), ('evt_ended', 'needs_review', 'run_terminated: x', 'stripe:evt_ended'),
		               ('evt_new', 'received', '', ''), ('evt_runs', 'processing', '', 'stripe:evt_runs')) as v(id, status, reason, workflow)`); err != nil {
		t.Fatal(err)
	}
	for event, words := range map[string]string{
		"evt_replay": "is needs_review (suspected_replay): it has not run: approve or reject it", "evt_ended": "is needs_review (run_terminated): its run was ended in Temporal",
		"evt_new": "is received: its run has not started yet", "evt_runs": "is processing: its run is in progress",
	} {
		_, err := over(db, says(nil)).Decide(t.Context(), ask("retry", event))
		if err == nil || !strings.Contains(err.Error(), words+"; retry is for a run that waits for a decision") {
			t.Errorf("%s: %v, want %q", event, err, words)
		}
	}
}

func TestDecide_BadAsk_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := parkedEvents(t, "evt_1")
	for name, tt := range map[string]struct {
		change func(*decide.Decision)
		says   string
	}{
		"no reason":  {func(a *decide.Decision) { a.Reason = " " }, "your name and a reason are required"},
		"no verb":    {func(a *decide.Decision) { a.Verb = "mend" }, `unknown verb "mend": use one of run,`},
		"request ID": {func(a *decide.Decision) { a.Request = "a b" }, "printable ASCII"},
		"NUL":        {func(a *decide.Decision) { a.Reason = "x\x00" }, "without NUL"},
		"unknown":    {func(a *decide.Decision) { a.Target = "evt_2" }, `no event "evt_2"`},
	} {
		a := ask("retry", "evt_1")
		tt.change(&a)
		if _, err := over(db, says(errors.New("asked"))).Decide(t.Context(), a); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
