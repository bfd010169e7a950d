package flowtest

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	events "github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// situation is a status and a reason of an event, with the commands that an operator can use in this state.
type situation struct {
	tune func(*config.Config)
	// bring creates an event in this situation.
	bring func(*testing.T, *rig) forge.Event
	// works lists the commands that an operator can use, in the form of the list but without the event and the
	// reason.
	works []string
}

var situations = map[string]situation{
	"received": {nil, kept("received", ""), []string{"doctor"}},
	"retrying": {func(c *config.Config) { c.Sinks["finance"].Retries.MaxElapsed = 240 * time.Hour }, func(t *testing.T, r *rig) forge.Event {
		r.fault(`{"service":"finance","next":1000,"status":503}`)
		e := bring(t, r, "invoice.paid")
		r.status(e, receipt.Retrying)
		return e
	}, []string{"cancel"}},
	"asked at load":      {nil, parks(receipt.NeedsReview, nil, unreadable), []string{"approve", "reject", "retry", "skip"}},
	"asked at the end":   {nil, endsInReview, []string{"approve", "reject", "skip", "compensate"}},
	"an effect failed":   {nil, parks(receipt.Dead, []string{financeDown}, nil), []string{"retry", "done", "skip", "compensate"}},
	"an effect refused":  {nil, parks(receipt.NeedsReview, []string{`{"service":"finance","status":422}`}, nil), []string{"retry", "done", "skip", "compensate"}},
	"an effect in doubt": {nil, parks(receipt.NeedsReview, []string{tooLate}, nil), []string{"done", "resend", "skip", "compensate"}},
	"an undo failed": {nil, parks(receipt.Dead, []string{refuse, financePasses, `{"service":"finance","next":3,"status":503}`}, nil),
		[]string{"retry", "done", "skip"}},
	"cancelled": {nil, func(t *testing.T, r *rig) forge.Event {
		e := parks(receipt.Dead, []string{financeDown}, nil)(t, r)
		if err := r.Temporal.CancelWorkflow(t.Context(), "stripe:"+e.ID, ""); err != nil {
			t.Fatal(err)
		}
		r.status(e, receipt.NeedsReview)
		return e
	}, []string{"retry", "done", "skip", "compensate"}},
	"its run was terminated": {nil, terminated, []string{"replay"}},
	"its run is stuck":       {nil, stuck, []string{"replay"}},
	"a suspected replay":     {nil, kept("needs_review", "suspected_replay: x"), []string{"approve", "reject", "run"}},
	"its start was refused":  {nil, kept("needs_review", "start_refused: x"), []string{"approve", "reject", "run"}},
	"another receipt's run":  {nil, kept("needs_review", "foreign_run: x"), []string{"approve", "reject", "run"}},
	"processed":              {nil, finished(receipt.Processed), []string{"replay"}},
	"compensated":            {nil, finished(receipt.Compensated, refuse), []string{"replay"}},
	"ignored by its run": {nil, func(t *testing.T, r *rig) forge.Event {
		e := finished(receipt.Processed)(t, r)
		r.exec(`update receipts set status = 'ignored', reason = 'account_not_mapped: x' where event_id = $1`, e.ID)
		return e
	}, []string{"replay", "run"}},
	"dismissed before a run": {nil, decided(kept("needs_review", "suspected_replay: x"), events.Reject.Name, receipt.Ignored), []string{"run"}},
	"dismissed by its run":   {nil, decided(parks(receipt.NeedsReview, nil, unreadable), events.Reject.Name, receipt.Processed), []string{"replay"}},
	"processed, with a skip": {nil, decided(parks(receipt.Dead, []string{financeDown}, nil), events.Skip.Name, receipt.Processed), []string{"replay"}},
	"taken back by a person": {nil, decided(parks(receipt.Dead, []string{financeDown}, nil), events.Compensate.Name, receipt.Compensated), []string{"replay"}},
	"processed, its body erased": {nil, func(t *testing.T, r *rig) forge.Event {
		e := finished(receipt.Processed)(t, r)
		r.exec(`delete from receipt_bodies where receipt_id = (select id from receipts where event_id = $1)`, e.ID)
		return e
	}, []string{"replay"}},
	"processed, its run forgotten":     {nil, forgotten(finished(receipt.Processed)), []string{"replay"}},
	"compensated, its run forgotten":   {nil, forgotten(finished(receipt.Compensated, refuse)), []string{"replay"}},
	"was terminated, and is forgotten": {nil, forgotten(terminated), []string{"replay"}},
	"ignored":                          {nil, kept("ignored", "type_ignored: x"), []string{"run"}},
	"ignored, without flow":            {nil, keptAs("moon.risen", "ignored", "type_ignored: x"), nil},
	"of another mode":                  {nil, kept("ignored", "mode_ignored: x"), nil},
}

// If pawl refuses a command, the refusal names another command that works, so no refusal sends an operator in a
// circle. For each status and reason, each refusal names the same commands as `pawl events show`, and those commands
// succeed.
func TestVerbs_EveryStatus_NoCircle(t *testing.T) {
	t.Parallel()
	for name, s := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, s.tune)
			e := s.bring(t, r)
			if e.ID == "" {
				t.Fatal("there is no event")
			}
			choices := events.Choices(r.operator(), e.ID, &r.show(e).Receipt)
			var listed []string
			for _, c := range choices {
				listed = append(listed, named(c))
			}
			if !slices.Equal(listed, s.works) {
				t.Fatalf("listed %v, want %v", listed, s.works)
			}
			before := r.standing(e)
			for _, v := range operator.Verbs {
				if strings.HasPrefix(v.Command, "events ") && !slices.Contains(s.works, v.Name) {
					r.wantRefusal(v.Name, e, choices)
				}
			}
			if after := r.standing(e); after != before {
				t.Errorf("a refused decision has changed %q to %q", before, after)
			}
			for i, c := range choices {
				if i > 0 { // each choice needs a new event
					e = s.bring(t, r)
				}
				r.follow(c, e)
			}
		})
	}
}

// named returns the name of a choice's verb.
func named(c decide.Choice) string {
	if c.Command[1] == "events" {
		return c.Decision.Verb
	}
	return c.Command[1]
}

// standing returns the part of an event's state that a decision can change.
func (r *rig) standing(e forge.Event) string {
	r.Helper()
	return r.rows(`select concat_ws(' ', status, reason, rerun, (select count(*) from operator_actions where target = event_id)) from receipts where event_id = $1`, e.ID)[0]
}

// wantRefusal checks that a verb is refused, and that the refusal names the verbs that work.
func (r *rig) wantRefusal(verb string, e forge.Event, works []decide.Choice) {
	r.Helper()
	_, err := r.ask(verb, e, func(a *decide.Decision) { a.Reference, a.Confirm = "4711", "x" })
	var refused *decide.RefusedError
	if !errors.As(err, &refused) {
		r.Errorf("%s: %v, want it refused", verb, err)
		return
	}
	for _, c := range works {
		if c.Command[0] == "pawl" && c.Command[1] == "events" {
			c.Command = slices.Clone(c.Command)
			c.Command[3] = e.ID
		}
		if !strings.Contains(err.Error(), c.Line()) {
			r.Errorf("%s is refused with\n%v\nwhich does not name %s", verb, err, c.Line())
		}
	}
	if len(works) == 0 && !strings.Contains(err.Error(), "to the sources of a destination") && !strings.Contains(err.Error(), "which does not accept it") {
		r.Errorf("%s is refused with %v, which names no alternative", verb, err)
	}
}

// follow executes a choice and checks that the event's state changes.
func (r *rig) follow(c decide.Choice, e forge.Event) {
	r.Helper()
	written := func() string {
		return r.rows(`select updated_at::text from receipts where event_id = $1`, e.ID)[0]
	}
	before := written()
	switch {
	case c.Command[1] != "events":
		return // this verb changes no state
	}
	_, err := r.ask(c.Decision.Verb, e, func(a *decide.Decision) {
		for i, word := range c.Command {
			switch word {
			case "--effect":
				kind, _, _ := strings.Cut(c.Command[i+1], ":")
				a.Effect = kind
			case "--reference":
				a.Reference = "4711"
			}
		}
		if a.Verb == events.Resend.Name {
			a.Confirm = r.rows(`select key from effects where event_id = $1 and kind = $2`, e.ID, a.Effect)[0]
		}
	})
	if err != nil {
		r.Errorf("%s is listed, and refused: %v", c.Line(), err)
		return
	}
	r.until("the event moves after "+c.Line(), func() bool { return written() != before })
}

func bring(t *testing.T, r *rig, eventType string) forge.Event {
	t.Helper()
	e := purchase(t, "circle-"+uuid.NewString()[:8], eventType, "starter")
	r.receive(e)
	return e
}

// parks returns a function that creates an event with a parked run of that status.
func parks(status receipt.Status, faults []string, change func(*testing.T, forge.Event) forge.Event) func(*testing.T, *rig) forge.Event {
	return func(t *testing.T, r *rig) forge.Event {
		t.Helper()
		r.clearFaults()
		r.fault(faults...)
		e := purchase(t, "circle-"+uuid.NewString()[:8], "invoice.paid", "starter")
		if change != nil {
			e = change(t, e)
		}
		r.receive(e)
		r.status(e, status)
		return e
	}
}

func finished(status receipt.Status, faults ...string) func(*testing.T, *rig) forge.Event {
	return func(t *testing.T, r *rig) forge.Event {
		t.Helper()
		e := parks(status, faults, nil)(t, r)
		r.result("stripe:"+e.ID, "")
		return e
	}
}

// decided returns a function that creates an event and ends its run with a verb.
func decided(brought func(*testing.T, *rig) forge.Event, verb string, ends receipt.Status) func(*testing.T, *rig) forge.Event {
	return func(t *testing.T, r *rig) forge.Event {
		t.Helper()
		e := brought(t, r)
		r.clearFaults()
		r.mustAsk(verb, e)
		r.status(e, ends)
		if run := r.show(e).Receipt.WorkflowID; run != "" {
			r.result(run, "")
		}
		return e
	}
}

// forgotten returns a function that creates an event with a run that Temporal has deleted.
func forgotten(brought func(*testing.T, *rig) forge.Event) func(*testing.T, *rig) forge.Event {
	return func(t *testing.T, r *rig) forge.Event {
		t.Helper()
		e := brought(t, r)
		run := &commonpb.WorkflowExecution{WorkflowId: "stripe:" + e.ID}
		if _, err := r.Temporal.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{Namespace: "default", WorkflowExecution: run}); err != nil {
			t.Fatal(err)
		}
		r.until("Temporal has forgotten it", func() bool {
			var gone *serviceerror.NotFound
			_, err := r.Temporal.DescribeWorkflow(t.Context(), run.WorkflowId, "")
			return errors.As(err, &gone)
		})
		return e
	}
}

func endsInReview(t *testing.T, r *rig) forge.Event {
	t.Helper()
	e := paidAfterEnd(t, r)
	r.receive(e)
	r.status(e, receipt.NeedsReview)
	return e
}

// kept returns a function that creates an event without a run, with the given status and reason.
func kept(status, reason string) func(*testing.T, *rig) forge.Event {
	return keptAs("invoice.paid", status, reason)
}

func keptAs(eventType, status, reason string) func(*testing.T, *rig) forge.Event {
	return func(t *testing.T, r *rig) forge.Event {
		t.Helper()
		e := purchase(t, "circle-"+uuid.NewString()[:8], "invoice.paid", "starter")
		e.Type = eventType
		r.insert(receipt.Delivery{
			Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
			Events: []receipt.New{{Mode: "live", EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Status: receipt.NeedsReview, Reason: "unknown_mode", Body: e.Body}},
		})
		r.exec(`update receipts set status = $2, reason = $3, dispatch_at = now() + interval '1 hour' where event_id = $1`, e.ID, status, reason)
		return e
	}
}

// terminated creates an event whose parked run was terminated, and pawl has noticed it.
func terminated(t *testing.T, r *rig) forge.Event {
	t.Helper()
	e := parks(receipt.Dead, []string{financeDown}, nil)(t, r)
	if err := r.Temporal.TerminateWorkflow(t.Context(), "stripe:"+e.ID, "", "by a person"); err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(dispatch.Config{Temporal: r.Temporal, Receipts: r.Receipts, Runs: r.Runs, TaskQueue: "none"})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the end is noticed", func() bool {
		if _, err := d.SearchOnce(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		return r.rows(`select reason_code from receipts where event_id = $1`, e.ID)[0] == receipt.RunTerminated
	})
	return e
}

// stuck creates an event whose workflow task fails on every worker, and waits until pawl has noticed the failure.
func stuck(t *testing.T, r *rig) forge.Event {
	t.Helper()
	e := kept("processing", "")(t, r)
	receiptID := r.rows(`select id::text from receipts where event_id = $1`, e.ID)[0]
	in := workflows.EventInput{Ref: event.Ref{ReceiptID: receiptID, Provider: "stripe", Mode: "live", EventID: e.ID, Type: e.Type}}
	if _, err := r.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: in.ID(), TaskQueue: r.Config.Temporal.TaskQueue, TypedSearchAttributes: in.SearchAttributes(), WorkflowTaskTimeout: time.Second,
	}, "NoSuchFlow", in); err != nil {
		t.Fatal(err)
	}
	r.until("its task has failed often enough", func() bool {
		found, err := r.Temporal.DescribeWorkflow(t.Context(), in.ID(), "")
		return err == nil && found.RawResponse.GetPendingWorkflowTask().GetAttempt() > 4
	})
	r.exec(`update receipts set status = 'needs_review', reason = 'workflow_task_failing: x', workflow_id = $2 where event_id = $1`, e.ID, in.ID())
	return e
}
