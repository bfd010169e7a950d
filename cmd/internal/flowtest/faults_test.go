package flowtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// trouble is a fault of the sandbox, and the expected state of the event's run.
type trouble struct {
	service, fault string
	// parks is the status in which the run waits for a person; "" if the run recovers without a person.
	parks receipt.Status
	// effect is the kind of the affected effect, and state its state while the run is parked.
	effect, state string
}

// long is a delay that exceeds a rig's timeout, and short is a delay below it.
const (
	long  = int(patience/time.Millisecond) + 200
	short = 50
)

// concerned maps each service to the effect that calls it.
var concerned = map[string]string{"workspaces": "provision-workspace", "finance": "finance-export", "email": "receipt-email"}

func troubles() []trouble {
	var all []trouble
	add := func(parks receipt.Status, effect, state, format string, args ...any) {
		fault := fmt.Sprintf(format, args...)
		service, _, _ := strings.Cut(strings.TrimPrefix(fault, `{"service":"`), `"`)
		all = append(all, trouble{service, fault, parks, effect, state})
	}
	for service, effect := range concerned {
		if effect == "receipt-email" {
			continue
		}
		for _, status := range []int{302, 408, 409, 425, 429, 500, 503} {
			add("", effect, "done", `{"service":%q,"status":%d}`, service, status)
		}
		for _, how := range []string{
			`"mode":"drop_before_accept"`, `"mode":"drop_after_accept"`, `"mode":"hang_after_accept"`, `"mode":"status_after_accept","status":500`,
			fmt.Sprintf(`"latency_ms":%d`, short), fmt.Sprintf(`"latency_ms":%d`, long),
		} {
			add("", effect, "done", `{"service":%q,%s}`, service, how)
		}
		// The third attempt is the last one; see TestMatrix_TimeUsedUp.
		add("", effect, "done", `{"service":%q,"next":2,"mode":"drop_after_accept"}`, service)
	}
	// Only the statuses that the sink declares are refusals. Every other 4xx is a fault of pawl or of the deployment.
	for _, status := range []int{402, 422, 451} {
		add(receipt.NeedsReview, "finance-export", "failed", `{"service":"finance","status":%d}`, status)
	}
	// An expired token opens the circuit breaker; the next probe succeeds.
	for _, status := range []int{401, 403} {
		add("", "finance-export", "done", `{"service":"finance","status":%d}`, status)
		add("", "provision-workspace", "done", `{"service":"workspaces","status":%d}`, status)
	}
	for _, status := range []int{400, 404, 405, 413} {
		add(receipt.Dead, "finance-export", "failed", `{"service":"finance","status":%d}`, status)
		add(receipt.Dead, "provision-workspace", "failed", `{"service":"workspaces","status":%d}`, status)
	}
	for _, how := range []string{`"status":500`, `"mode":"drop_before_accept"`, `"mode":"drop_after_accept"`, `"mode":"hang_after_accept"`, `"mode":"status_after_accept","status":503`} {
		add("", "", "", `{"service":"events",%s}`, how)
	}
	for _, stage := range []string{"mail", "rcpt", "data"} {
		add("", "receipt-email", "done", `{"service":"email","smtp":%q,"status":450}`, stage)
		add("", "receipt-email", "done", `{"service":"email","smtp":%q,"latency_ms":%d}`, stage, short)
		parks := receipt.NeedsReview
		if stage == "mail" { // no sink has rejected the customer yet
			parks = receipt.Dead
		}
		add(parks, "receipt-email", "failed", `{"service":"email","smtp":%q,"status":550}`, stage)
	}
	add("", "receipt-email", "done", `{"service":"email","smtp":"mail","mode":"drop_before_accept"}`)
	add("", "receipt-email", "done", `{"service":"email","smtp":"rcpt","mode":"drop_before_accept"}`)
	add("", "receipt-email", "done", `{"service":"email","smtp":"rcpt","latency_ms":%d}`, long)
	// If the connection fails after the final dot of the message, the outcome is unknown. The client sends a short
	// message completely before it notices the closed connection.
	add(receipt.NeedsReview, "receipt-email", "uncertain", `{"service":"email","smtp":"data","mode":"drop_before_accept"}`)
	add(receipt.NeedsReview, "receipt-email", "uncertain", `{"service":"email","mode":"drop_after_accept"}`)
	add(receipt.NeedsReview, "receipt-email", "uncertain", `{"service":"email","mode":"hang_after_accept"}`)
	add(receipt.NeedsReview, "receipt-email", "uncertain", `{"service":"email","smtp":"data","latency_ms":%d}`, long)
	return all
}

// The test produces every fault of each service. An effect with an idempotency key is applied once. An e-mail is sent
// at most once, and its effect becomes uncertain if the outcome is unknown. If a person must decide, the run waits
// until all other effects are done.
func TestInvoicePaid_EveryFault(t *testing.T) {
	t.Parallel()
	all := troubles()
	for _, service := range []string{"workspaces", "finance", "email", "events"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, hanging)
			for _, tr := range all {
				if tr.service != service {
					continue
				}
				t.Run(strings.NewReplacer(`"`, "", "{", "", "}", "").Replace(tr.fault), func(t *testing.T) {
					r := r.of(t)
					r.meet(tr)
				})
			}
		})
	}
}

// meet sends an event while the fault is active, and checks the run until its end.
func (r *rig) meet(tr trouble) {
	r.fault(tr.fault)
	seed := uuid.NewString()[:8]
	r.account = "acct-" + seed
	e := purchase(r.T, seed, "invoice.paid", "starter")
	workflowID := r.receive(e)
	if tr.parks != "" {
		r.status(e, tr.parks)
		if got := r.effects(e)[tr.effect]; got != tr.state {
			r.Errorf("%s is %s while the run is parked, want %s", tr.effect, got, tr.state)
		}
		r.onceEach(tr, tr.state)
		action := workflows.UpdateRetry
		if tr.state == "uncertain" {
			action = workflows.UpdateSkip // another attempt could send the e-mail twice
		}
		r.decide(workflowID, action, workflows.DecisionInput{})
	}
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		r.Errorf("outcome %s (%s)", result.Outcome, result.Reason)
	}
	r.footprint() // the counts are final only after the outbox is empty
	state := "done"
	if tr.state == "uncertain" {
		state = "skipped"
	}
	for kind, got := range r.effects(e) {
		if got != "done" && (kind != tr.effect || got != state) {
			r.Errorf("%s is %s in the end", kind, got)
		}
	}
	r.onceEach(tr, state)
	if got := r.done("events"); got != 3 {
		r.Errorf("the destination took %d events, want 3: %v", got, r.journal("events"))
	}
}

// onceEach checks that each service applied its request once, except the failed effect and an e-mail with an unknown
// outcome.
func (r *rig) onceEach(tr trouble, state string) {
	r.Helper()
	for service, effect := range concerned {
		least, most := 1, 1
		if effect == tr.effect && state == "failed" {
			least, most = 0, 0
		}
		if effect == tr.effect && (state == "uncertain" || state == "skipped") {
			least = 0
		}
		if got := r.done(service); got < least || got > most {
			r.Errorf("%s did %d things, want %d: %v", service, got, most, r.journal(service))
		}
		for _, e := range r.journal(service) {
			if e.Key != r.journal(service)[0].Key {
				r.Errorf("%s got two keys: %v", service, r.journal(service))
			}
		}
	}
}

// Only if the sink answers with a status that it declares as a refusal, the customer cannot have the plan.
func TestInvoicePaid_EveryRefusalOfProvisioning_Compensates(t *testing.T) {
	t.Parallel()
	for _, status := range []int{402, 422, 451} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fault(fmt.Sprintf(`{"service":"workspaces","status":%d}`, status))
			e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
			b := branch{outcome: "compensated", effects: compensation, done: map[string]int{"workspaces": 1, "finance": 2, "email": 2, "events": 4}}
			r.check(b, e, r.result(r.receive(e), ""))
		})
	}
}

// The workspace API applies a request and closes the connection, and then rejects the retry as invalid. The rejection
// may be caused by the retry and not by the customer, so pawl compensates nothing, and the run parks for a review.
func TestInvoicePaid_RefusedAfterBrokenAnswer_Parks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(`{"service":"workspaces","mode":"drop_after_accept"}`, `{"service":"workspaces","status":422}`)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	if got := r.done("finance"); got != 1 {
		t.Errorf("finance has %d entries", got)
	}
	r.decide(id, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(id, ""); result.Outcome != "processed" || r.done("workspaces") != 1 {
		t.Errorf("outcome %s (%s), %d workspaces", result.Outcome, result.Reason, r.done("workspaces"))
	}
}
