package flowtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	decides "github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/receipt"
)

// failsOnce is a Temporal client that loses the response to its first update.
type failsOnce struct {
	decides.Temporal
	failed *bool
}

func (f failsOnce) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if !*f.failed {
		*f.failed = true
		return nil, errors.New("the console was killed")
	}
	return f.Temporal.UpdateWorkflow(ctx, o)
}

// of sets the policy that two people must decide about money.
func of(name string) func(*decides.Decision) {
	return func(d *decides.Decision) {
		d.By = &decides.Person{Identity: decides.Identity{Issuer: decides.IssuerLocal, Subject: name}, Name: name, Roles: []role.Role{role.Admin}}
		d.Request = "by-" + name
	}
}

// A parked run continues after the second person has decided, even if the console of that person crashes after it
// recorded the decision and before it updated the run: a repeated request then reaches the run. A retry needs only
// one person.
func TestFourEyes_ParkedRun_FollowsTheSecond(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	o := r.operator()
	o.FourEyes, o.Temporal = true, failsOnce{r.Temporal, new(bool)}
	decide := func(who, verb string, e string, change ...func(*decides.Decision)) (*decides.Answer, error) {
		d := decides.Decision{Verb: verb, Target: e, Reason: "looked at it"}
		for _, c := range append(change, of(who)) {
			c(&d)
		}
		return o.Decide(r.Context(), d)
	}
	r.fault(tooLate)
	e := purchase(t, "four-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.NeedsReview)
	for verb, four := range map[string]bool{event.Retry.Name: false, event.Resend.Name: true, event.Skip.Name: true, event.Compensate.Name: true} {
		p, err := o.Preview(r.Context(), decides.Decision{Verb: verb, Target: e.ID, By: &decides.Person{Identity: decides.Identity{Issuer: decides.IssuerLocal, Subject: "ada"}, Name: "ada"}})
		if err != nil || (p.FourEyes != "") != four {
			t.Errorf("%s: %+v, %v; takes two: %t", verb, p, err, four)
		}
	}
	first, err := decide("ada", event.Compensate.Name, e.ID)
	if err != nil || first.Pending == nil || first.Pending.Money["usd"] != 4900 {
		t.Fatalf("ada: %+v, %v", first, err)
	}
	confirms := func(d *decides.Decision) { d.Confirms = first.Pending.ID }
	if _, err := decide("bob", event.Compensate.Name, e.ID, confirms); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("bob, with a console that crashes: %v", err)
	}
	if _, err := decide("carol", event.Compensate.Name, e.ID, confirms); err == nil || !strings.Contains(err.Error(), "no longer waits for a second person") {
		t.Fatalf("carol, meanwhile: %v", err)
	}
	if a, err := decide("bob", event.Compensate.Name, e.ID, confirms); err != nil || !a.Repeated || a.Pending != nil {
		t.Fatalf("bob again: %+v, %v", a, err)
	}
	if result := r.result(id, ""); result.Outcome != "compensated" {
		t.Errorf("ended %s (%s)", result.Outcome, result.Reason)
	}
	if n := len(r.journal("finance")); n != 2 {
		t.Errorf("finance has %d entries, want the payment and its reversal", n)
	}
	if waits := r.rows(`select id from pending_decisions where receipt_id = $1 and event_at = (select updated_at from receipts where id = $1)`, r.show(e).Receipt.ID); len(waits) != 0 {
		t.Errorf("%v waits for a second person: the event has gone on", waits)
	}
}

// Two people are needed to assign live money. A decision that assigns the payment to another account is a separate
// decision, and needs its own confirmation. The review of the paid session is approved without a further request.
func TestFourEyes_Assign(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	o := r.operator()
	o.FourEyes = true
	x := &telling{judged: judged{events: []happening{chargeOf(0, "pi_1", 1500, set("customer", nil)), sells("completed", 0, "paid", "", set("customer", nil))}}, tag: "-" + uuid.NewString()[:8],
		begin: time.Now().Add(-4 * aDay).Truncate(time.Second), order: []int{0}}
	r.come("it has ended", []string{r.deliver(x, 0)}, receipt.Processed)
	session := r.deliver(x, 1)
	r.come("it is parked", []string{session}, receipt.NeedsReview)
	assign := func(who, account, confirms string) *decides.Answer {
		t.Helper()
		d := decides.Decision{Confirms: confirms,
			Verb: money.Assign.Name, Target: x.own("pi_1"), Reason: "the customer's mail", Args: decides.Args{Account: account}}
		of(who)(&d)
		a, err := o.Decide(r.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := assign("ada", x.own("acme"), ""); a.Pending == nil || a.Pending.Money["usd"] != 1500 || a.Pending.Args["account"] != x.own("acme") {
		t.Errorf("ada: %+v", a)
	}
	asked := assign("bob", x.own("globex"), "")
	if a := asked; a.Pending == nil || !strings.Contains(a.Message, "the decision that ada requested has changed") {
		t.Errorf("bob, for another account: %+v", a)
	}
	if a := assign("carol", x.own("globex"), asked.Pending.ID); a.Pending != nil || a.Result.(*money.AssignResult).AssignedTo != x.own("globex") ||
		!slices.Equal(a.Result.(*money.AssignResult).Approved, []string{session}) {
		t.Errorf("carol: %+v", a)
	}
	r.come("the review is closed", []string{session}, receipt.Processed)
	r.until("it is booked", func() bool {
		return len(r.rows(`select account from finance_entries where account = $1`, x.own("globex"))) == 1
	})
	r.until("nothing is due of it", func() bool {
		return len(r.rows(`select why from due where object = $1`, x.own("pi_1"))) == 0
	})
}
