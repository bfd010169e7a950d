package flowtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Two runs of one invoice wait for the finance sink. The first is being compensated, but has undone nothing yet,
// because its first undo waits for a lock. An entry that the other run books meanwhile is reversed as well.
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

	// The first undo waits for the customer's row, and writes nothing to the ledger meanwhile.
	holder, err := r.IntakePool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(), `set local idle_in_transaction_session_timeout = 0; select pg_advisory_xact_lock(hashtextextended('customer live ' || customer, 0)) from (select distinct customer from facts) as known`); err != nil {
		t.Fatal(err)
	}
	r.decide(first, workflows.UpdateCompensate, workflows.DecisionInput{})
	r.until("the first undo waits", func() bool {
		run, err := r.Temporal.DescribeWorkflow(t.Context(), first, "")
		return err == nil && len(run.RawResponse.GetPendingActivities()) == 1
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

// withoutAddress removes the address from an event, so that no e-mail is sent or corrected.
func withoutAddress(t *testing.T, e forge.Event) forge.Event {
	return change(t, e, func(body map[string]any) {
		delete(body["data"].(map[string]any)["object"].(map[string]any), "customer_email")
	})
}

// siblingsDead returns two events of one invoice with runs that parked for the same finance entry.
func siblingsDead(t *testing.T) (r *rig, paid, succeeded forge.Event, first, second string) {
	t.Helper()
	r = newRig(t, nil)
	r.fault(`{"service": "finance", "status": 404}`)
	seed := "siblings-" + uuid.NewString()[:8]
	paid = purchase(t, seed, "invoice.paid", "starter")
	succeeded = rename(t, purchase(t, seed, "invoice.payment_succeeded", "starter"), paid.ID+"_succeeded")
	first = r.receive(paid)
	r.status(paid, receipt.Dead)
	second = r.receive(succeeded)
	r.status(succeeded, receipt.Dead)
	r.clearFaults()
	return r, paid, succeeded, first, second
}

// A run that waits for an entry finishes by itself after a retry of its sibling has booked it.
func TestInvoicePaid_DoneBySiblingWhileParked_EndsByItself(t *testing.T) {
	t.Parallel()
	r, paid, succeeded, first, second := siblingsDead(t)
	r.decide(first, workflows.UpdateRetry, workflows.DecisionInput{})
	r.status(succeeded, receipt.Processed)
	result := r.result(second, "")
	i := slices.IndexFunc(result.Effects, func(e workflows.EffectResult) bool { return strings.HasPrefix(e.Key, "finance-export:") })
	if result.Outcome != "processed" || i < 0 || result.Effects[i].By != paid.ID {
		t.Errorf("the second run ended %s (%s) with %+v, want processed, and the entry by %s", result.Outcome, result.Reason, result.Effects, paid.ID)
	}
	if got := r.done("finance"); got != 1 {
		t.Errorf("finance has %d entries, want 1", got)
	}
}

// A compensation is refused if a sibling has completed everything that the parked run waits for, as the preview
// reports. It undoes nothing, and the run finishes by itself.
func TestInvoicePaid_CompensatedAfterSiblingServed_RefusedAsPreviewed(t *testing.T) {
	t.Parallel()
	r, paid, succeeded, first, second := siblingsDead(t)
	// The second run is not woken, because its workflow ID is hidden.
	r.exec(`update receipts set workflow_id = 'hidden' where event_id = $1`, succeeded.ID)
	r.decide(first, workflows.UpdateRetry, workflows.DecisionInput{})
	r.result(first, "")
	r.exec(`update receipts set workflow_id = $2 where event_id = $1`, succeeded.ID, second)

	said, err := r.operator().Preview(t.Context(), decide.Decision{Target: succeeded.ID, Verb: workflows.UpdateCompensate})
	if err != nil || !strings.Contains(said.Refused, "event "+paid.ID+" has settled every effect") {
		t.Errorf("preview: %v, %+v, want it refused", err, said)
	}
	err = decideAbout(t.Context(), r.operator(), second, workflows.UpdateCompensate, workflows.DecisionInput{})
	if err == nil || !strings.Contains(err.Error(), "event "+paid.ID+" has settled every effect") {
		t.Errorf("compensate: %v, want it refused", err)
	}
	if result := r.result(second, ""); result.Outcome != "processed" {
		t.Errorf("the second run ended %s (%s)", result.Outcome, result.Reason)
	}
	if got := r.rows(`select kind from effects where kind in ('reverse-finance-entry', 'withhold-grant', 'correction-notice')`); len(got) > 0 {
		t.Errorf("%v were done", got)
	}
	if got := r.rows(`select action from operator_actions`); !slices.Equal(got, []string{"retry"}) {
		t.Errorf("the audit trail has %v, want the retry alone", got)
	}
}
