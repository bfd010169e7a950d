package flowtest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Deleting old payloads does not prevent later e-mails: if a subscription ends a year later, pawl still sends the
// e-mail about its end.
func TestCleanUpOfBodies_ThenAnEnd_CustomerIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, expiring)
	seed, at := "clean-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour)
	paid := purchaseAt(t, seed, "invoice.paid", "pro", at)
	r.result(r.receive(paid), "")
	mails := r.done("email")
	r.expire()
	if held := r.rows(`select count(*)::text from receipt_bodies`); held[0] != "0" {
		t.Fatalf("%s bodies are held", held[0])
	}
	ended := rename(t, purchaseAt(t, seed, "customer.subscription.deleted", "pro", at.Add(time.Hour)), "evt_"+seed+"_ended")
	r.result(r.receive(ended), "")
	if got := r.done("email"); got != mails+1 {
		t.Errorf("%d letters after the clean-up, want one: %q", got-mails, r.rows(`select key || ' ' || state || ' ' || error from effects`))
	}
}

// Reconcile copies the customer's current address from Stripe. The report does not contain the address.
func TestReconcile_AddressChangedUnseen_BroughtThere(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	seed, at := "moved-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour)
	paid := purchaseAt(t, seed, "invoice.paid", "pro", at)
	moved := rename(t, purchaseAt(t, seed, "customer.updated", "pro", at.Add(time.Hour)), "evt_"+seed+"_moved")
	moved = change(t, moved, func(body map[string]any) {
		body["data"].(map[string]any)["object"].(map[string]any)["email"] = "ada@new.example"
	})
	r.tell(paid, moved)
	r.result(r.receive(paid), "")
	found := r.compare("acct-" + seed)
	if got := strings.Join(fields(found), "; "); !strings.Contains(got, "customer address: another, as Stripe has it") || strings.Contains(got, "@") {
		t.Fatalf("differences %q", got)
	}
	r.says("ada", account.Reconcile.Name, found.Account, "it has moved", decide.Args{Found: found})
	for _, f := range found.Filed {
		r.status(forge.Event{ID: f.EventID}, receipt.Processed)
	}
	if got := r.rows(`select email from addresses`); len(got) != 1 || got[0] != "ada@new.example" {
		t.Errorf("addresses %q", got)
	}
	if trail := r.rows(`select concat(before, after, reason) from operator_actions`); strings.Contains(strings.Join(trail, ""), "@") {
		t.Errorf("the audit trail has an address: %q", trail)
	}
}
