package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Two runs of one invoice wait for finance. The one is compensated, but has nothing undone yet: another effect
// is at the account's workspace. What the other run books meanwhile is taken back, too.
func TestInvoicePaid_BookedByAnotherRunBeforeTheFirstUndo_Reversed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	seed := "between-" + uuid.NewString()[:8]
	paid := withoutAddress(t, purchase(t, seed, "invoice.paid", "starter"))
	succeeded := rename(t, withoutAddress(t, purchase(t, seed, "invoice.payment_succeeded", "starter")), paid.ID+"_succeeded")
	first := r.receive(paid)
	r.status(paid, receipt.Dead)
	second := r.receive(succeeded)
	r.status(succeeded, receipt.Dead)

	r.exec(`insert into effects (key, kind, exclusive, state, receipt_id, event_id, workflow_id, run_id, lease_until)
		select 'provision-workspace:another', kind, exclusive, 'claimed', receipt_id, event_id, workflow_id, run_id, now() + interval '1 hour'
		  from effects where kind = 'provision-workspace'`)
	r.decide(first, workflows.UpdateCompensate, workflows.DecisionInput{})
	r.until("the first undo waits", func() bool {
		run, err := r.temporal.DescribeWorkflowExecution(t.Context(), first, "")
		return err == nil && len(run.GetPendingActivities()) == 1
	})
	r.decide(second, workflows.UpdateRetry, workflows.DecisionInput{})
	r.result(second, "")
	if got := r.done("finance"); got != 1 {
		t.Fatalf("finance has %d entries, want the one of the retry", got)
	}
	r.exec(`update effects set state = 'skipped' where key = 'provision-workspace:another'`)
	if result := r.result(first, ""); result.Outcome != "compensated" {
		t.Errorf("the first run ended %s (%s)", result.Outcome, result.Reason)
	}
	var kinds []string
	for _, entry := range r.journal("finance") {
		kinds = append(kinds, fmt.Sprint(entry.Body["type"]))
	}
	if !slices.Equal(kinds, []string{"payment", "reversal"}) {
		t.Errorf("finance has %v of a payment that was taken back, want it reversed", kinds)
	}
	if got := r.effects()["finance-export"]; got != "compensated" {
		t.Errorf("finance-export is %s in the ledger", got)
	}
}

// withoutAddress is the event of a customer without an address: no mail is sent, and none corrected.
func withoutAddress(t *testing.T, e forge.Event) forge.Event {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	delete(body["data"].(map[string]any)["object"].(map[string]any), "customer_email")
	var err error
	if e.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	return e
}
