package flowtest

import (
	"context"
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

	// The first undo waits for the customer's row, and leaves nothing in the ledger meanwhile.
	holder, err := r.IntakePool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(), `set local idle_in_transaction_session_timeout = 0; select from customers for update`); err != nil {
		t.Fatal(err)
	}
	r.decide(first, workflows.UpdateCompensate, workflows.DecisionInput{})
	r.until("the first undo waits", func() bool {
		run, err := r.Temporal.DescribeWorkflowExecution(t.Context(), first, "")
		return err == nil && len(run.GetPendingActivities()) == 1
	})
	r.decide(second, workflows.UpdateRetry, workflows.DecisionInput{})
	r.result(second, "")
	if got := r.done("finance"); got != 1 {
		t.Fatalf("finance has %d entries, want the one of the retry", got)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result := r.result(first, ""); result.Outcome != "compensated" {
		t.Errorf("the first run ended %s (%s)", result.Outcome, result.Reason)
	}
	var kinds []string
	for _, entry := range r.journal("finance") {
		kinds = append(kinds, fmt.Sprint(entry.Body["kind"]))
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
	return change(t, e, func(body map[string]any) {
		delete(body["data"].(map[string]any)["object"].(map[string]any), "customer_email")
	})
}
