package flowtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// branch is one path through a flow.
type branch struct {
	// flow is the workflow type, and name the name of the branch.
	flow, name string
	// eventType is the type of the event; "" means invoice.paid.
	eventType, plan string
	tune            func(*config.Config)
	// key is set if the source has a Stripe API key. lines is the number of the invoice's lines; 0 means one line.
	key   bool
	lines int
	// prepare sets up the state before the event arrives.
	prepare func(r *rig, e forge.Event)
	// change edits the event. It can be nil.
	change func(t *testing.T, e forge.Event) forge.Event
	// cancel cancels the parked run.
	cancel bool
	// parks is the status in which the run waits for the decision in decide.
	parks  receipt.Status
	reason string
	decide string
	effect string
	// reference is the sink's ID of an effect that a person marks as done.
	reference string

	outcome string
	// effects is the expected state of each effect of the event.
	effects map[string]string
	// done is the expected number of requests that each service of the sandbox applied.
	done map[string]int
	// announced lists the event types that a compensated run publishes. nil means the types for an invoice.
	announced []string
}

// once returns the counts of a run of a paid invoice without failures. The three published events report the paid
// invoice, the plan of the subscription, and the changed access.
func once(changed map[string]int) map[string]int {
	counts := map[string]int{"workspaces": 1, "finance": 1, "email": 1, "events": 3}
	maps.Copy(counts, changed)
	return counts
}

// healthy returns the effects of a paid invoice.
func healthy(pairs ...string) map[string]string {
	return with(map[string]string{"apply-facts": "done", "provision-workspace": "done", "finance-export": "done", "receipt-email": "done"}, pairs...)
}

const (
	financeDown   = `{"service":"finance","next":3,"status":503}`
	refuse        = `{"service":"workspaces","status":422}`
	tooLate       = `{"service":"email","mode":"drop_after_accept"}`
	financePasses = `{"service":"finance","latency_ms":1}`
	tokenExpired  = `{"service":"workspaces","status":401}`
)

func faults(list ...string) func(*rig, forge.Event) {
	return func(r *rig, _ forge.Event) { r.fault(list...) }
}

// sent delivers another event about the same purchase first, and waits until the run of that event has ended.
func sent(eventType string, after time.Duration) func(*rig, forge.Event) {
	return func(r *rig, e forge.Event) {
		before := purchaseAt(r.T, seedOf(e), eventType, "starter", bought.Add(after))
		r.result(r.receive(rename(r.T, before, before.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))), "")
	}
}

// undecided first delivers another change from the same second. That change starts from the same state, leads to a
// lower plan, and happened later at Stripe.
func undecided(r *rig, e forge.Event) {
	other := purchaseAt(r.T, seedOf(e), e.Type, "starter", bought)
	other = rename(r.T, other, other.ID+"_other")
	r.tell(e, other)
	r.result(r.receive(other), "")
}

// seedOf returns the seed of the event's purchase.
func seedOf(e forge.Event) string {
	return strings.TrimSuffix(strings.TrimPrefix(e.ID, "evt_"), "_second")
}

// unreadable removes the currency from an invoice, so that pawl cannot parse the invoice.
func unreadable(t *testing.T, e forge.Event) forge.Event {
	return change(t, e, func(body map[string]any) {
		delete(body["data"].(map[string]any)["object"].(map[string]any), "currency")
	})
}

var branches = []branch{
	{name: "happy", plan: "starter", outcome: "processed", effects: healthy(), done: once(nil)},
	{name: "enterprise", plan: "enterprise", outcome: "processed", effects: healthy("onboarding-task", "done"), done: once(nil)},
	{name: "activity-only", plan: "starter", outcome: "processed", effects: healthy(), done: once(nil), tune: func(c *config.Config) {
		c.Sinks["workspaces"].Execution, c.Sinks["finance"].Execution, c.Sinks["email"].Execution = "activity", "activity", "activity"
	}},
	{
		name: "already-done", plan: "starter", eventType: "invoice.payment_succeeded", outcome: "processed", done: once(nil),
		effects: map[string]string{"apply-facts": "done"},
		prepare: func(r *rig, e forge.Event) {
			r.result(r.receive(purchase(r.T, seedOf(e), "invoice.paid", "starter")), "")
		},
	},
	{name: "escalated", plan: "starter", prepare: faults(`{"service":"finance","status":503}`), outcome: "processed", effects: healthy(), done: once(nil)},
	{name: "retry-after", plan: "starter", prepare: faults(`{"service":"finance","status":429,"retry_after":1}`), outcome: "processed", effects: healthy(), done: once(nil)},
	{
		name: "dead-retry", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "effect_failed: finance-export is failed",
		decide: workflows.UpdateRetry, outcome: "processed", effects: healthy(), done: once(nil),
	},
	{
		name: "dead-skip", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "effect_failed: finance-export is failed",
		decide: workflows.UpdateSkip, effect: "finance-export", outcome: "processed",
		effects: healthy("finance-export", "skipped"), done: once(map[string]int{"finance": 0}),
	},
	{
		name: "dead-compensate", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "effect_failed: finance-export is failed",
		decide: workflows.UpdateCompensate, outcome: "compensated",
		effects: map[string]string{
			"apply-facts": "compensated", "withhold-grant": "done", "provision-workspace": "done", "receipt-email": "compensated", "finance-export": "failed",
			"correction-notice": "done",
		},
		done: map[string]int{"workspaces": 2, "finance": 0, "email": 2, "events": 4},
	},
	{
		// An expired token is not the fault of the customer: pawl compensates nothing, and the run waits until the
		// token is replaced.
		name: "token-expired", plan: "starter", prepare: faults(tokenExpired), outcome: "processed", effects: healthy(), done: once(nil),
	},
	{
		name: "refused", plan: "enterprise", prepare: faults(refuse), outcome: "compensated",
		effects: with(compensation, "onboarding-task", "compensated", "cancel-onboarding-task", "done"),
		done:    map[string]int{"workspaces": 1, "finance": 2, "email": 2, "events": 4},
	},
	{
		name: "undo-fails-for-a-while", plan: "starter", outcome: "compensated", effects: compensation,
		prepare: faults(refuse, financePasses, `{"service":"finance","next":2,"status":503}`),
		done:    map[string]int{"workspaces": 1, "finance": 2, "email": 2, "events": 4},
	},
	{
		name: "undo-parks", plan: "starter", outcome: "compensated", effects: compensation,
		prepare: faults(refuse, financePasses, `{"service":"finance","next":3,"status":503}`),
		parks:   receipt.Dead, reason: "undo_failed: reverse-finance-entry is failed", decide: workflows.UpdateRetry,
		done: map[string]int{"workspaces": 1, "finance": 2, "email": 2, "events": 4},
	},
	{
		name: "cancelled", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, cancel: true, reason: "cancelled: ",
		decide: workflows.UpdateRetry, outcome: "processed", effects: healthy(), done: once(nil),
	},
	{
		name: "review-skip", plan: "starter", change: unreadable, parks: receipt.NeedsReview, reason: "unreadable_payload: invoice.currency",
		decide: workflows.UpdateSkip, outcome: "processed", effects: map[string]string{},
		done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
	{
		name: "paid-after-end", plan: "starter", prepare: func(r *rig, e forge.Event) {
			sent("customer.subscription.created", -time.Hour)(r, e)
			sent("customer.subscription.deleted", -time.Minute)(r, e)
		},
		parks: receipt.NeedsReview, reason: "paid_after_end: ", decide: workflows.UpdateApprove, outcome: "processed",
		effects: healthy("provision-workspace", "", "review", "done", "close-review", "done"),
		// The counts include the earlier events: the workspace was activated and suspended.
		done: map[string]int{"workspaces": 2, "finance": 1, "email": 1},
	},
	{
		name: "uncertain-mail-skip", plan: "starter", prepare: faults(tooLate), parks: receipt.NeedsReview, reason: "effect_uncertain: receipt-email is uncertain",
		decide: workflows.UpdateSkip, outcome: "processed", effects: healthy("receipt-email", "skipped"), done: once(nil),
	},
	{
		name: "uncertain-mail-resend", plan: "starter", prepare: faults(tooLate), parks: receipt.NeedsReview, reason: "effect_uncertain: receipt-email is uncertain",
		// a person requested it
		decide: workflows.UpdateResend, effect: "receipt-email", outcome: "processed", effects: healthy(), done: once(map[string]int{"email": 2}),
	},
	{
		name: "uncertain-mail-done", plan: "starter", prepare: faults(tooLate), parks: receipt.NeedsReview, reason: "effect_uncertain: receipt-email is uncertain",
		decide: workflows.UpdateDone, effect: "receipt-email", reference: "relay log 17:03", outcome: "processed", effects: healthy(), done: once(nil),
	},
	{
		name: "dead-done", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "effect_failed: finance-export is failed",
		decide: workflows.UpdateDone, effect: "finance-export", reference: "4711", outcome: "processed", effects: healthy(), done: once(map[string]int{"finance": 0}),
	},
	{
		name: "review-reject", plan: "starter", change: unreadable, parks: receipt.NeedsReview, reason: "unreadable_payload: invoice.currency",
		decide: workflows.UpdateReject, outcome: "processed", effects: map[string]string{},
		done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},

	{
		flow: "SubscriptionEnded", name: "ended", plan: "starter", eventType: "customer.subscription.deleted", outcome: "processed",
		prepare: func(r *rig, e forge.Event) {
			r.result(r.receive(rename(r.T, purchaseAt(r.T, seedOf(e), "invoice.paid", "starter", bought.Add(-time.Hour)), e.ID+"_paid")), "")
		},
		// The event arrives months late, so the retention of the workspace is over.
		effects: map[string]string{"apply-facts": "done", "provision-workspace": "done", "subscription-ended-notice": "done", "release-task": "done"},
		done:    map[string]int{"workspaces": 2, "finance": 1, "email": 2, "events": 5},
	},
	{
		flow: "SubscriptionEnded", name: "never-granted", plan: "starter", eventType: "customer.subscription.deleted", outcome: "processed",
		effects: map[string]string{"apply-facts": "done"}, done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
	{
		flow: "SubscriptionEnded", name: "suspension-fails", plan: "starter", eventType: "customer.subscription.deleted", outcome: "processed",
		prepare: func(r *rig, e forge.Event) {
			r.result(r.receive(rename(r.T, purchaseAt(r.T, seedOf(e), "invoice.paid", "starter", bought.Add(-time.Hour)), e.ID+"_paid")), "")
			r.fault(`{"service":"workspaces","status":422}`)
		},
		parks: receipt.NeedsReview, reason: "effect_refused: provision-workspace is refused", decide: workflows.UpdateRetry,
		effects: map[string]string{"apply-facts": "done", "provision-workspace": "done", "subscription-ended-notice": "done", "release-task": "done"},
		done:    map[string]int{"workspaces": 2, "finance": 1, "email": 2, "events": 5},
	},
	{name: "lines-fetched", key: true, lines: 23, plan: "enterprise", outcome: "processed", effects: healthy("fetch-object", "done", "onboarding-task", "done"), done: once(nil)},
	{name: "lines-without-key", lines: 23, plan: "starter", outcome: "processed", effects: healthy(), done: once(nil)},
	{
		// If the API key has no permission to read the invoice, pawl uses the lines in the event.
		name: "lines-forbidden", key: true, lines: 11, plan: "starter", prepare: faults(`{"service":"stripe","status":403}`),
		outcome: "processed", effects: healthy("fetch-object", "skipped"), done: once(nil),
	},
	{
		name: "lines-not-there", key: true, lines: 11, plan: "starter", prepare: faults(`{"service":"stripe","mode":"missing","next":3}`),
		outcome: "processed", effects: healthy("fetch-object", "skipped"), done: once(nil),
	},
	{name: "thin", key: true, plan: "starter", change: thinOf, outcome: "processed", effects: healthy("fetch-object", "done"), done: once(nil)},
	{
		name: "thin-not-shown", key: true, plan: "starter", change: thinOf, prepare: faults(`{"service":"stripe","mode":"missing","next":3}`),
		parks: receipt.NeedsReview, reason: "object_not_found: fetch-object is refused",
		decide: workflows.UpdateRetry, outcome: "processed", effects: healthy("fetch-object", "done"), done: once(nil),
	},
	{
		flow: workflows.LostFlow, name: "invoice", key: true, plan: "starter", change: lostOf, prepare: func(r *rig, e forge.Event) { r.tell(e) }, outcome: "processed",
		effects: map[string]string{"fetch-object": "done", "apply-facts": "done", "provision-workspace": "done", "finance-export": "done"},
		done:    map[string]int{"workspaces": 1, "finance": 1, "email": 0},
	},
	{
		flow: "SubscriptionChanged", name: "undecided-fetched", key: true, plan: "pro", eventType: "customer.subscription.updated", outcome: "processed",
		prepare: undecided, effects: map[string]string{"fetch-object": "done", "apply-facts": "done", "provision-workspace": "done", "subscription-changed-notice": "skipped"},
		done: map[string]int{"workspaces": 2, "finance": 0, "email": 0},
	},
	{
		flow: "SubscriptionChanged", name: "undecided", plan: "pro", eventType: "customer.subscription.updated", outcome: "processed",
		prepare: undecided, effects: map[string]string{"apply-facts": "done", "provision-workspace": "done", "subscription-changed-notice": "skipped"},
		done: map[string]int{"workspaces": 2, "finance": 0, "email": 0},
	},
	{
		flow: "SubscriptionChanged", name: "created", plan: "pro", eventType: "customer.subscription.created", outcome: "processed",
		effects: map[string]string{"apply-facts": "done", "provision-workspace": "done"}, done: map[string]int{"workspaces": 1, "finance": 0, "email": 0, "events": 2},
	},
	{
		flow: "SubscriptionChanged", name: "upgraded", plan: "pro", eventType: "customer.subscription.updated", outcome: "processed",
		prepare: func(r *rig, e forge.Event) {
			r.result(r.receive(rename(r.T, purchaseAt(r.T, seedOf(e), "invoice.paid", "starter", bought.Add(-time.Hour)), e.ID+"_paid")), "")
		},
		effects: map[string]string{"apply-facts": "done", "provision-workspace": "done", "subscription-changed-notice": "done"},
		done:    map[string]int{"workspaces": 2, "finance": 1, "email": 2, "events": 5},
	},
	{
		flow: "PaymentFailed", name: "failed", plan: "starter", eventType: "invoice.payment_failed", outcome: "processed",
		prepare: sent("customer.subscription.created", -time.Hour),
		// The event arrives months late, so the last reminder is also due, but it is not sent.
		effects: map[string]string{"apply-facts": "done", "action-required-notice": "done"},
		done:    map[string]int{"workspaces": 1, "finance": 0, "email": 1, "events": 3},
	},
	{
		flow: "PaymentFailed", name: "paid-meanwhile", plan: "starter", eventType: "invoice.payment_failed", outcome: "processed",
		prepare: sent("invoice.paid", time.Minute),
		effects: map[string]string{"apply-facts": "done"},
		done:    map[string]int{"workspaces": 1, "finance": 1, "email": 1, "events": 4},
	},
	{
		flow: "InvoiceClosed", name: "part-paid", plan: "starter", eventType: "invoice.voided", outcome: "processed",
		prepare: sent("customer.subscription.created", -time.Hour),
		change: func(t *testing.T, e forge.Event) forge.Event {
			return change(t, e, func(body map[string]any) {
				body["data"].(map[string]any)["object"].(map[string]any)["amount_paid"] = 30
			})
		},
		effects: map[string]string{"apply-facts": "done", "finance-export": "done"},
		done:    map[string]int{"workspaces": 1, "finance": 1, "email": 0, "events": 3},
	},
	{
		flow: "TrialEnding", name: "on-trial", plan: "starter", eventType: "customer.subscription.trial_will_end", outcome: "processed",
		// the first invoice of a trial, with amount 0, contains the address for the e-mail
		prepare: func(r *rig, e forge.Event) {
			first := purchaseAt(r.T, seedOf(e), "invoice.paid", "starter", bought.Add(-time.Hour))
			r.result(r.receive(change(r.T, rename(r.T, first, first.ID+"_first"), func(body map[string]any) {
				object := body["data"].(map[string]any)["object"].(map[string]any)
				object["amount_due"], object["amount_paid"] = 0, 0
			})), "")
		},
		change: func(t *testing.T, e forge.Event) forge.Event {
			return change(t, e, func(body map[string]any) {
				body["data"].(map[string]any)["object"].(map[string]any)["trial_end"] = time.Now().Add(72 * time.Hour).Unix()
			})
		},
		effects: map[string]string{"apply-facts": "done", "trial-ending-notice": "done"},
		done:    map[string]int{"workspaces": 1, "finance": 0, "email": 1, "events": 3},
	},
	{
		flow: "AccountLinked", name: "customer", plan: "pro", eventType: "customer.created", outcome: "processed",
		effects: map[string]string{"apply-facts": "done"}, done: map[string]int{"workspaces": 0, "events": 0},
	},
	{
		flow: "Record", name: "finalized", plan: "pro", eventType: "invoice.finalized", outcome: "processed",
		effects: map[string]string{"apply-facts": "done"}, done: map[string]int{"workspaces": 0, "events": 0},
	},
}

// compensation returns the effects of a paid invoice if provisioning is refused. The workspace returns to the target
// that it had without the invoice.
var compensation = map[string]string{
	"apply-facts": "compensated", "finance-export": "compensated", "receipt-email": "compensated", "provision-workspace": "done",
	"withhold-grant": "done", "reverse-finance-entry": "done", "correction-notice": "done",
}

// with returns m with changed states; "" removes an effect.
func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	maps.DeleteFunc(m, func(_, state string) bool { return state == "" })
	return m
}

// Every branch of every billing flow runs against a real Temporal, Postgres and sandbox. The test checks the outcome
// of the branch, and that its history contains no personal data. A reset to the first workflow task must repeat no
// effect and end with the same outcome.
func TestFlows_EveryBranch(t *testing.T) {
	t.Parallel()
	for _, b := range slices.Concat(branches, moneyBranches) {
		b.flow, b.eventType = cmp.Or(b.flow, "InvoicePaid"), cmp.Or(b.eventType, "invoice.paid")
		t.Run(b.flow+"/"+b.name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, b.key, b.tune)
			seed := branchSeed(b.name)
			e := purchaseOf(t, seed, b.eventType, b.plan, bought, max(b.lines, 1))
			if b.key {
				r.tell(e)
			}
			if b.name == "already-done" {
				e = rename(t, e, e.ID+"_second")
			}
			if b.change != nil {
				e = b.change(t, e)
			}
			if b.prepare != nil {
				b.prepare(r, e)
			}
			workflowID := r.receive(e)
			if b.parks != "" {
				r.status(e, b.parks)
				if b.cancel {
					if err := r.Temporal.CancelWorkflow(t.Context(), workflowID, ""); err != nil {
						t.Fatal(err)
					}
					r.status(e, receipt.NeedsReview)
				}
				if got := r.rows(`select reason from receipts where event_id = $1`, e.ID); !strings.HasPrefix(got[0], b.reason) {
					t.Errorf("parked because %q, want %q", got[0], b.reason)
				}
				in := workflows.DecisionInput{Effect: b.effect, Reference: b.reference}
				if b.decide == workflows.UpdateResend {
					in.Confirm = r.rows(`select key from effects where kind = $1 and event_id = $2`, b.effect, e.ID)[0]
				}
				r.decide(workflowID, b.decide, in)
			}
			result := r.result(workflowID, "")
			r.check(b, e, result)
			first := r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID()
			history := r.history(workflowID, first)
			noCanary(t, history)
			if recording() {
				writeGolden(t, b.flow, b.name, history)
			}
			r.resetAndCheck(b, e, workflowID, history)
		})
	}
}

// Two events report one payment, and both runs park on the same effect. After a person has compensated one run, a
// decision about the second run neither executes the failed effect nor reports success.
func TestInvoicePaid_TakenBackWhileAnotherRunIsParked(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{workflows.UpdateRetry, workflows.UpdateSkip, workflows.UpdateCompensate} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fault(financeDown)
			seed := "two-" + uuid.NewString()[:8]
			paid := purchase(t, seed, "invoice.paid", "starter")
			succeeded := rename(t, purchase(t, seed, "invoice.payment_succeeded", "starter"), paid.ID+"_succeeded")
			first := r.receive(paid)
			r.status(paid, receipt.Dead)
			second := r.receive(succeeded)
			r.status(succeeded, receipt.Dead)

			r.decide(first, workflows.UpdateCompensate, workflows.DecisionInput{})
			if result := r.result(first, ""); result.Outcome != "compensated" {
				t.Errorf("the first run ended %s (%s)", result.Outcome, result.Reason)
			}
			before := r.footprint()
			r.decide(second, decision, workflows.DecisionInput{}) // the finance sink works again
			if result := r.result(second, ""); result.Outcome != "compensated" {
				t.Errorf("the second run ended %s (%s), want compensated", result.Outcome, result.Reason)
			}
			after := r.footprint()
			delete(before, "audit") // the decision adds an audit row
			for name := range before {
				if !reflect.DeepEqual(before[name], after[name]) {
					t.Errorf("%s changed %s\nfrom %v\nto   %v", decision, name, before[name], after[name])
				}
			}
			if got := r.journal("finance"); len(got) != 0 {
				t.Errorf("finance has %v of a payment that was taken back", got)
			}
		})
	}
}

// rename sets the ID of an event.
func rename(t *testing.T, e forge.Event, id string) forge.Event {
	t.Helper()
	e.ID = id
	return change(t, e, func(body map[string]any) { body["id"] = id })
}

// change edits the event's body.
func change(t *testing.T, e forge.Event, edit func(body map[string]any)) forge.Event {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	edit(body)
	var err error
	if e.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	return e
}

func (r *rig) check(b branch, e forge.Event, result workflows.EventResult) {
	r.Helper()
	if result.Outcome != b.outcome {
		r.Errorf("outcome %s (%s), want %s", result.Outcome, result.Reason, b.outcome)
	}
	if got := r.status(e, receipt.Processed, receipt.Compensated); string(got) != b.outcome {
		r.Errorf("receipt is %s, want %s", got, b.outcome)
	}
	if got := r.effects(e); !maps.Equal(got, b.effects) {
		r.Errorf("effects\n got %v\nwant %v", got, b.effects)
	}
	r.footprint() // the counts are final only after the outbox is empty
	for service, n := range b.done {
		if got := r.done(service); got != n {
			r.Errorf("%s did %d things, want %d: %v", service, got, n, r.journal(service))
		}
	}
	if b.name == "already-done" {
		for _, effect := range result.Effects[1:] { // the first effect stores the facts of the event
			if effect.State != "already_done" || effect.By == "" || effect.By == e.ID {
				r.Errorf("effect %+v, want it done by the other event", effect)
			}
		}
	}
	if b.outcome == "compensated" {
		r.checkTakenBack(b)
	}
}

// checkTakenBack checks the state of the external systems after a compensation.
func (r *rig) checkTakenBack(b branch) {
	r.Helper()
	if got := r.rows(`select feature from entitlements where enabled`); len(got) != 0 {
		r.Errorf("features %v are still on", got)
	}
	if got := r.rows(`select target_state from accounts where target_state <> 'suspended'`); len(got) != 0 {
		r.Error("the account still has its plan")
	}
	if got := r.rows(`select kind || ' ' || state from tasks where kind = 'onboarding' and state <> 'cancelled' or kind = 'correction' and state <> 'open'`); len(got) != 0 {
		r.Errorf("tasks: %v", got)
	}
	if all := r.journal("workspaces"); len(all) > 0 && all[len(all)-1].Body["state"] != "suspended" {
		r.Errorf("the workspace was left as %v", all[len(all)-1].Body)
	}
	if all := r.journal("email"); len(all) == 0 || !strings.HasPrefix(fmt.Sprint(all[len(all)-1].Body["subject"]), "Correction") {
		r.Errorf("mails %v, want a correction last", all)
	}
	if n := b.done["finance"]; n > 0 {
		all := r.journal("finance")
		last, paid := all[len(all)-1], all[0]
		if last.Body["kind"] != "reversal" || last.Body["reverses"] != paid.Key || last.Body["amount"] != paid.Body["amount"] {
			r.Errorf("finance %v, want the entry reversed", all)
		}
	}
	announced := b.announced
	if announced == nil {
		announced = []string{"billing.invoice.paid", "billing.subscription.changed", "access.changed", "access.changed"}
	}
	if got := r.rows(`select type from outbox where type not like 'task.%' order by id`); !slices.Equal(got, announced) {
		r.Errorf("announced: %v, want %v", got, announced)
	}
}

// resetAndCheck resets the finished run to its first workflow task and checks that no effect is repeated.
func (r *rig) resetAndCheck(b branch, e forge.Event, workflowID string, history *historypb.History) {
	r.Helper()
	before := r.footprint()
	resetID := r.reset(workflowID, history)
	if result := r.result(workflowID, resetID); result.Outcome != b.outcome {
		r.Errorf("the reset run ended %s (%s), want %s", result.Outcome, result.Reason, b.outcome)
	}
	after := r.footprint()
	for name := range before {
		if !reflect.DeepEqual(before[name], after[name]) {
			r.Errorf("the reset changed %s\nfrom %v\nto   %v", name, before[name], after[name])
		}
	}
	if got := r.status(e, receipt.Processed, receipt.Compensated); string(got) != b.outcome {
		r.Errorf("the receipt is %s after the reset, want %s", got, b.outcome)
	}
	first := history.Events[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	got := r.rows(`select concat_ws(' ', run_id, kind, previous_run_id, outcome) from runs where workflow_id = $1 order by started_at, kind`, workflowID)
	want := []string{first + " original  " + b.outcome, resetID + " reset " + first + " " + b.outcome}
	if !reflect.DeepEqual(got, want) {
		r.Errorf("runs\n got %q\nwant %q", got, want)
	}
}

// reset resets a run to its first workflow task and returns the new run's ID.
func (r *rig) reset(workflowID string, history *historypb.History) string {
	r.Helper()
	var task int64
	for _, event := range history.Events {
		if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			task = event.EventId
			break
		}
	}
	return resetTo(r.Context(), r.T, r.Temporal, workflowID, task)
}

// firstStarted is the event that starts a run's first workflow task. A run can be reset to it before the task has
// completed.
const firstStarted = 3

// resetTo resets a run to a workflow task event and returns the new run's ID.
func resetTo(ctx context.Context, t *testing.T, c client.Client, workflowID string, event int64) string {
	t.Helper()
	reset, err := c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		Reason: "a test", RequestId: uuid.NewString(), WorkflowTaskFinishEventId: event,
	})
	if err != nil {
		t.Fatal(err)
	}
	return reset.RunId
}

// If a person dismisses a run before its first effect and the run is then reset, the dismissal does not apply to an
// effect that fails after the reset.
func TestReset_DecisionAboutAnotherQuestion_IsAskedAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := unreadable(t, purchase(t, "dismissed-"+uuid.NewString()[:8], "invoice.paid", "starter"))
	id := r.receive(e)
	r.status(e, receipt.NeedsReview)
	r.decide(id, workflows.UpdateSkip, workflows.DecisionInput{})
	r.result(id, "")
	// Simulate a later version with a parser that can read the payload.
	whole := purchase(t, seedOf(e), "invoice.paid", "starter")
	r.exec(`with changed as (update receipts set body_hash = sha256($1) where event_id = $2 returning id)
		update receipt_bodies set body = $1 where receipt_id = (select id from changed)`, whole.Body, e.ID)
	r.fault(financeDown)
	run := r.reset(id, r.history(id, ""))
	r.status(e, receipt.Dead)
	r.clearFaults()
	r.decide(id, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(id, run); result.Outcome != "processed" || r.done("finance") != 1 {
		t.Errorf("after the reset %+v with %d entries booked", result, r.done("finance"))
	}
}

// noCanary searches the whole history, whose payloads are not encoded.
func noCanary(t *testing.T, history *historypb.History) {
	t.Helper()
	raw, err := proto.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	readable := func(word string) bool { return bytes.Contains(raw, []byte(word)) }
	if !slices.ContainsFunc([]string{"apply-facts", "apply-due", "unreadable_payload", "relay:", "ship-order", "book-tickets"}, readable) {
		t.Error("the history holds no readable payload; this test would see nothing")
	}
	if at := bytes.Index(raw, []byte(canary)); at >= 0 {
		t.Errorf("personal data in the history: …%q…", raw[max(0, at-80):min(len(raw), at+80)])
	}
}
