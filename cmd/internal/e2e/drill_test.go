package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/schematest"
)

// command runs a pawl command as an operator would, and returns its output and exit code.
func (w *world) command(args ...string) (out, errs string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), shared.binary, append([]string{"--config", filepath.Join(w.dir, "pawl.yaml")}, args...)...)
	cmd.Env = append(plainEnv(), "SECRET="+secret, "USER=ada")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// do runs a command that must succeed, and decodes its JSON output into `into` unless `into` is nil.
func (w *world) do(into any, args ...string) {
	w.t.Helper()
	if into != nil {
		args = append(args, "--json")
	}
	out, errs, code := w.command(args...)
	if code != 0 {
		w.t.Fatalf("pawl %s ended with code %d:\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(out), into); err != nil {
			w.t.Fatalf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// tell adds an event to the sandbox's Stripe API without a delivery.
func (w *world) tell(e forge.Event) {
	w.t.Helper()
	resp, err := http.Post(w.sandbox.URL()+"/stripe/_events", "application/json", bytes.NewReader(e.Body))
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		w.t.Fatalf("the sandbox answered %d to an event", resp.StatusCode)
	}
}

// resetIn resets a run in Temporal to its first task, as a person can do in the Temporal UI.
func resetIn(t *testing.T, c client.Client, workflowID string) {
	t.Helper()
	var task *historypb.HistoryEvent
	events := c.GetWorkflowHistory(t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() && task == nil {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED {
			task = e
		}
	}
	if _, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, Reason: "drill",
		WorkflowTaskFinishEventId: task.GetEventId() + 1, RequestId: workflowID,
	}); err != nil {
		t.Fatal(err)
	}
}

// The test simulates a day with many failures and their repairs by operators: the finance sink refuses requests and
// is then down; runs are cancelled, terminated and reset in Temporal; an event never arrives; an account differs from
// Stripe. Afterwards every effect has happened once, each preview matches the result, and the audit trail names the
// person of each action.
func TestDrill(t *testing.T) {
	t.Parallel()
	refused, later := schematest.OrLong(20, 60), schematest.OrLong(30, 90)
	// long timeouts, so that none of a hundred concurrent e-mails becomes uncertain on a busy machine
	w := newWorldWith(t, time.Minute)
	config := filepath.Join(w.dir, "pawl.yaml")
	content, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	w.write("stripe.key", "rk_live_drill")
	w.write("pawl.yaml", strings.Replace(string(content), "secrets: [{value: env:SECRET}]",
		"secrets: [{value: env:SECRET}], api_key: file:stripe.key, api_url: "+w.sandbox.URL()+"/stripe", 1))
	in := joint(w.pawl("ingress", "", "--worker"))
	_, temporalClient := temporal(t)

	// The finance sink answers 404 because its path is wrong. A 404 is not a refusal of the customer, so nothing is
	// compensated.
	w.fault(`{"service":"finance","status":404,"next":100000}`)
	events := newInvoices(t, refused+later+1)
	parked := events[:refused]
	w.deliver(in, parked...)
	w.awaitStatus(4*patience, parked, "dead")
	w.clearFaults()

	// Then the finance sink is down. The circuit breaker opens, and no more runs park.
	w.fault(`{"service":"finance","status":503,"next":100000}`)
	w.deliver(in, events[refused:refused+later]...)
	await(t, 2*patience, func() error {
		if n := w.count(`select count(*) from breakers where sink = 'finance' and open and probes >= 2`); n != 1 {
			return fmt.Errorf("its breaker has not probed it twice; %v", w.rows(`select status, reason_code, count(*) from receipts group by 1, 2`))
		}
		return nil
	})
	if n := w.count(`select count(*) from receipts where status in ('dead', 'needs_review')`); n != refused {
		t.Errorf("%d events are parked while finance is out, want the %d from before", n, refused)
	}
	w.clearFaults()
	w.awaitStatus(4*patience, events[refused:refused+later], processed)

	// One e-mail has an unknown outcome.
	doubtful := events[refused+later]
	w.fault(`{"service":"email","next":1,"mode":"drop_after_accept"}`)
	w.deliver(in, doubtful)
	w.awaitStatus(2*patience, []invoice{doubtful}, "needs_review")
	w.clearFaults()
	w.do(nil, "events", "mark-done", doubtful.ID, "--effect", "receipt-email", "--reference", "seen in the customer's inbox", "--reason", "drill")

	// A person cancels one run in Temporal, terminates another and resets a third.
	takenBack, byHand, cancelled, terminated, reset := parked[0], parked[1], parked[2], parked[3], parked[4]
	if err := temporalClient.CancelWorkflow(t.Context(), "stripe:"+cancelled.ID, ""); err != nil {
		t.Fatal(err)
	}
	if err := temporalClient.TerminateWorkflow(t.Context(), "stripe:"+terminated.ID, "", "drill"); err != nil {
		t.Fatal(err)
	}
	resetIn(t, temporalClient, "stripe:"+reset.ID)
	w.do(nil, "events", "compensate", takenBack.ID, "--reason", "drill")
	w.do(nil, "events", "mark-done", byHand.ID, "--effect", "finance-export", "--reference", "FIN-4711", "--reason", "drill")
	await(t, 3*patience, func() error {
		for id, want := range map[string]string{cancelled.ID: "cancelled", terminated.ID: "run_terminated"} {
			if n := w.count(`select count(*) from receipts where event_id = $1 and status = 'needs_review' and reason_code = $2`, id, want); n != 1 {
				return fmt.Errorf("%s is not %s: %v", id, want, w.rows(`select status, reason from receipts where event_id = $1`, id))
			}
		}
		return nil
	})
	w.do(nil, "events", "retry", cancelled.ID, "--reason", "drill")
	w.do(nil, "events", "replay", terminated.ID, "--reason", "drill")
	w.awaitStatus(2*patience, []invoice{cancelled, terminated, byHand, doubtful}, processed)
	w.awaitStatus(2*patience, []invoice{takenBack}, compensated)

	// An operator retries the remaining events at once with a rate limit, after a preview.
	left := parked[5:]
	if w.count(`select count(*) from receipts where event_id = $1 and status = 'dead'`, reset.ID) == 1 {
		left = parked[4:] // the run of the reset has parked like the original run
	}
	var preview struct {
		Count, Previewed, Refused int
		Outcomes                  map[string]int
		Effects                   map[string]int
	}
	w.do(&preview, "events", "retry", "--status", "dead", "--dry-run")
	if preview.Count != len(left) || preview.Previewed != len(left) || preview.Refused != 0 || preview.Outcomes[processed] != len(left) {
		t.Errorf("the preview contains %+v, want %d events that end as processed", preview, len(left))
	}
	for range 2 { // two requests with the same ID create one job
		w.do(nil, "events", "retry", "--status", "dead", "--rate", "50", "--reason", "drill", "--yes", "--request-id", "drill")
	}
	w.awaitStatus(4*patience, left, processed)
	w.awaitStatus(patience, []invoice{reset}, processed)
	await(t, patience, func() error {
		var job struct {
			State string
			Items int
			Done  int
		}
		w.do(&job, "jobs", "show", "drill")
		if job.State != "finished" || job.Items != len(left) || job.Done != len(left) {
			return fmt.Errorf("the job is %+v", job)
		}
		return nil
	})

	// One event never arrived, and one account differs from Stripe.
	lost := newInvoice(t, nil)
	w.tell(lost.Event)
	if out, _, code := w.command("events", "backfill", "stripe", "--from", "1h"); code != 1 || !strings.Contains(out, lost.ID) {
		t.Errorf("gaps: code %d\n%s", code, out)
	}
	w.do(nil, "events", "backfill", "stripe", "--from", "1h", "--yes", "--reason", "drill")
	w.awaitStatus(2*patience, []invoice{lost}, processed)
	if out, _, code := w.command("events", "backfill", "stripe", "--from", "1h"); code != 0 || !strings.HasPrefix(out, "no gap between ") {
		t.Errorf("gaps: code %d\n%s", code, out)
	}
	drifted, err := forge.New(forge.Params{Provider: stripe.Provider, Type: "customer.subscription.created", Account: "drifted", Plan: "enterprise", Live: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Data struct{ Object struct{ Customer string } }
	}
	if err := json.Unmarshal(drifted.Body, &body); err != nil {
		t.Fatal(err)
	}
	w.tell(drifted)
	w.do(nil, "reconcile", body.Data.Object.Customer, "--reason", "drill", "--yes")
	await(t, 2*patience, func() error {
		if _, _, code := w.command("reconcile", body.Data.Object.Customer, "--dry-run"); code != 0 {
			return fmt.Errorf("the account still differs")
		}
		return nil
	})

	// The journals of the sinks show that every effect happened once.
	w.checkOnceAtSinks(append(events, lost), func(e invoice) bool { return e.ID != takenBack.ID && e.ID != byHand.ID })
	if n := w.count(`select count(*) from effects where state not in ('done', 'compensated', 'skipped') and not (kind in ('finance-export') and event_id = $1)`, takenBack.ID); n != 0 {
		t.Errorf("open effects: %v", w.rows(`select key, state, error from effects where state not in ('done', 'compensated', 'skipped')`))
	}
	if n := w.count(`select count(*) from receipts where status not in ('processed', 'compensated')`); n != 0 {
		t.Errorf("not at rest: %v", w.rows(`select event_id, status, reason from receipts where status not in ('processed', 'compensated')`))
	}
	w.do(nil, "audit", "verify")
	w.do(nil, "rebuild", "--check")
}
