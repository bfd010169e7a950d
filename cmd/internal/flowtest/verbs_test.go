package flowtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// operator is the operator of the command line, over this rig's Temporal and with the database role of a worker.
func (r *rig) operator() *operator.Operator { return r.operatorOver(r.worker) }

// operatorOver is one with this rig's Temporal, and a pool on its database.
func (r *rig) operatorOver(db *pgxpool.Pool) *operator.Operator {
	receipts := receipt.NewStore(db, receipt.Options{})
	r.Cleanup(receipts.Close)
	return &operator.Operator{
		DB: db, Temporal: r.Temporal, Audit: audit.New(db, slog.New(slog.DiscardHandler)), Relays: process.Relays(r.Config),
		Unstick: operator.Unstick(r.Temporal, "default"), Outlook: process.Outlook(r.Config, db, receipts), TaskQueue: r.Config.Temporal.TaskQueue,
		Policy: process.BillingPolicy(r.Config), Insert: receipts.Insert, Places: map[string][]string{operator.Sink: {"finance"}, operator.Source: {"stripe"}},
	}
}

// says has somebody decide something, which must be taken.
func (r *rig) says(who, verb, target, why string, args operator.Args) *operator.Answer {
	r.Helper()
	answer, err := r.operator().Decide(r.Context(), operator.Decision{Verb: verb, Target: target, Who: who, Why: why, Args: args})
	if err != nil {
		r.Fatalf("%s: %v", verb, err)
	}
	return answer
}

// answer is what was answered about an event.
type answer struct {
	*operator.Answer
	*operator.EventResult
}

// ask has ada ask for something about an event.
func (r *rig) ask(verb string, e forge.Event, change ...func(*operator.Decision)) (answer, error) {
	r.Helper()
	a := operator.Decision{Verb: verb, Target: e.ID, Who: "uid:1(ada)", Why: "looked at it"}
	for _, c := range change {
		c(&a)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	var got *operator.Answer
	var err error
	// The receipt shows that a run parks a moment before the run can take a decision.
	r.until(verb+" is answered", func() bool {
		got, err = r.operator().Decide(ctx, a)
		return err == nil || !strings.Contains(err.Error(), "another decision at this moment")
	})
	if err != nil {
		return answer{}, err
	}
	return answer{got, got.Result.(*operator.EventResult)}, nil
}

func (r *rig) mustAsk(verb string, e forge.Event, change ...func(*operator.Decision)) answer {
	r.Helper()
	answer, err := r.ask(verb, e, change...)
	if err != nil {
		r.Fatalf("%s: %v", verb, err)
	}
	return answer
}

func effectOf(name string) func(*operator.Decision) {
	return func(a *operator.Decision) { a.Effect = name }
}

func (r *rig) key(kind string) string {
	r.Helper()
	return r.rows(`select key from effects where kind = $1`, kind)[0]
}

// show is everything about an event.
func (r *rig) show(e forge.Event) *timeline.Event {
	r.Helper()
	event, err := operator.ShowEvent(r.Context(), r.Pool, e.ID)
	if err != nil {
		r.Fatal(err)
	}
	return event
}

// A booking that somebody has made by hand is done, with what finance calls it; nothing is sent, and a compensation takes
// it back by a reversing entry.
func TestVerbs_Done_ThenCompensated(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown, tooLate)
	e := purchase(t, "done-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	answer := r.mustAsk(operator.VerbDone, e, effectOf("finance-export"), func(a *operator.Decision) { a.Reference = "entry 4711" })
	if !slices.Equal(answer.About, []string{r.key("finance-export")}) || len(answer.Effects) != 2 {
		t.Errorf("answered %+v", answer)
	}
	r.status(e, receipt.NeedsReview) // the mail is in doubt
	if got := r.rows(`select concat_ws(' ', state, result->>'reference', error) from effects where kind = 'finance-export'`); got[0] !=
		"done entry 4711 done by hand, confirmed by uid:1(ada): looked at it (reference entry 4711)" {
		t.Errorf("the ledger has %q", got)
	}
	if got := r.rows(`select concat_ws(' ', kind, reference) from finance_entries`); !slices.Equal(got, []string{"payment entry 4711"}) {
		t.Errorf("our books have %q", got)
	}
	if n := r.done("finance"); n != 0 {
		t.Errorf("finance was sent %d entries", n)
	}
	said := func() bool {
		return slices.ContainsFunc(r.show(e).Timeline, func(s timeline.Entry) bool {
			return s.What == "effect-done" && strings.Contains(s.Error, "reference entry 4711")
		})
	}
	if !said() {
		t.Error("the timeline does not say who has done it")
	}
	r.mustAsk(operator.VerbCompensate, e)
	if result := r.result(id, ""); result.Outcome != "compensated" {
		t.Errorf("ended %s (%s)", result.Outcome, result.Reason)
	}
	var kinds []string
	for _, entry := range r.journal("finance") {
		kinds = append(kinds, fmt.Sprint(entry.Body["kind"], " of ", entry.Body["reverses"]))
	}
	if !slices.Equal(kinds, []string{"reversal of " + r.key("finance-export")}) {
		t.Errorf("finance has %v, want what was booked by hand reversed", kinds)
	}
	if got := r.effects(e)["finance-export"]; got != "compensated" {
		t.Errorf("the entry is %s in the ledger", got)
	}
}

// A mail in doubt is left by a retry. Sent again, it is a new generation, under a Message-ID of its own.
func TestVerbs_Resend_NewGeneration(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(tooLate)
	e := purchase(t, "resend-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.NeedsReview)
	var refused *operator.RefusedError
	if _, err := r.ask(operator.VerbRetry, e); !errors.As(err, &refused) || !strings.Contains(err.Error(), "resend "+e.ID) {
		t.Errorf("a retry of what is in doubt: %v, want it refused for a resend", err)
	}
	if _, err := r.ask(operator.VerbResend, e); !errors.As(err, &refused) || !strings.Contains(err.Error(), "confirm with the key of the effect") {
		t.Errorf("not confirmed: %v", err)
	}
	key := r.key("receipt-email")
	confirm := func(a *operator.Decision) { a.Confirm, a.Request = key, "resend-1" }
	r.mustAsk(operator.VerbResend, e, confirm)
	r.result(id, "")
	// The answer was lost, and the run has ended since.
	if again := r.mustAsk(operator.VerbResend, e, confirm); !again.Repeated || !slices.Equal(again.About, []string{key}) {
		t.Errorf("once more: %+v, want the first call's answer", again)
	}
	mails := r.journal("email")
	if len(mails) != 2 || mails[0].Key == mails[1].Key || !strings.Contains(mails[1].Key, ".g2.") {
		t.Errorf("mails %v, want two under IDs of their own", mails)
	}
	if got := r.rows(`select concat_ws(' ', state, generation) from effects where key = $1`, key); got[0] != "done 2" {
		t.Errorf("the ledger has %q", got)
	}
	if got := r.rows(`select action from operator_actions`); !slices.Equal(got, []string{"resend"}) {
		t.Errorf("audited %q, want one resend", got)
	}
}

// Of two effects that are not done, one is tried again.
func TestVerbs_RetryOfOneEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(`{"service":"finance","next":3,"status":503}`, `{"service":"workspaces","status":404}`)
	e := purchase(t, "one-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	r.mustAsk(operator.VerbRetry, e, effectOf("finance-export"))
	r.until("the entry is booked, and the event parked again", func() bool {
		return r.effects(e)["finance-export"] == "done" && r.rows(`select status from receipts`)[0] == "dead"
	})
	if n := r.done("workspaces"); n != 0 || r.effects(e)["provision-workspace"] != "failed" {
		t.Errorf("the workspace was provisioned %d times by a retry of the entry", n)
	}
	waits := r.show(e).Receipt.Waits
	if waits == nil || len(waits.Effects) != 1 || waits.Effects[0].Kind != "provision-workspace" {
		t.Errorf("waits for %+v, want the workspace", waits)
	}
	r.mustAsk(operator.VerbRetry, e)
	if result := r.result(id, ""); result.Outcome != "processed" || r.done("workspaces") != 1 || r.done("finance") != 1 {
		t.Errorf("ended %s with %d workspaces and %d entries", result.Outcome, r.done("workspaces"), r.done("finance"))
	}
}

// A review at the end: approved, everything stands; rejected, the grant is withheld, and what was paid stays booked.
func TestVerbs_ReviewAtEnd(t *testing.T) {
	t.Parallel()
	for verb, reason := range map[string]string{operator.VerbApprove: "", operator.VerbReject: "withheld: uid:1(ada) decided to reject: looked at it"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			e := paidAfterEnd(t, r)
			id := r.receive(e)
			r.status(e, receipt.NeedsReview)
			if _, err := r.ask(operator.VerbRetry, e); err == nil || !strings.Contains(err.Error(), "events approve") || !strings.Contains(err.Error(), "events reject") {
				t.Errorf("a retry of a review: %v, want it refused for approve and reject", err)
			}
			r.mustAsk(verb, e)
			if result := r.result(id, ""); result.Outcome != "processed" || result.Reason != reason {
				t.Errorf("ended %s (%s)", result.Outcome, result.Reason)
			}
			if entries := r.booked(); !slices.Equal(entries, []string{"payment"}) {
				t.Errorf("finance has %v, want the payment", entries)
			}
			if open := r.rows(`select kind from tasks where kind = 'review' and state = 'open'`); len(open) > 0 {
				t.Errorf("open %v", open)
			}
		})
	}
}

// paidAfterEnd has a subscription end, and returns the event that it was paid afterwards.
func paidAfterEnd(t *testing.T, r *rig) forge.Event {
	t.Helper()
	e := purchase(t, "late-"+uuid.NewString()[:8], "invoice.paid", "starter")
	sent("customer.subscription.created", -time.Hour)(r, e)
	sent("customer.subscription.deleted", -time.Minute)(r, e)
	return e
}

// What a person decides is one decision, however often the call is made, and by however many at once.
func TestVerbs_SameRequestAtOnce_OneDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, "request-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	answers := make(chan error, 4)
	for range cap(answers) {
		go func() {
			_, err := r.ask(operator.VerbRetry, e, func(a *operator.Decision) { a.Request = "retry-1" })
			answers <- err
		}()
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Errorf("one of the calls: %v", err)
		}
	}
	r.result(id, "")
	if got := r.rows(`select action from operator_actions`); len(got) != 1 || r.done("finance") != 1 {
		t.Errorf("audited %q, and %d entries are booked; want one of each", got, r.done("finance"))
	}
}

// A client of Temporal's decides in nobody's name: a run takes only a decision that pawl has recorded, as it was recorded.
func TestVerbs_DecisionNotRecorded_NotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, "foreign-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	in := workflows.DecisionInput{Who: "uid:0(ada)", Why: "looked at it"}
	refused := func(what, request, action string, in workflows.DecisionInput) {
		t.Helper()
		r.until("the run takes decisions", func() bool {
			err := sendUpdate(t.Context(), r.Temporal, id, action, request, in)
			if err == nil || !strings.Contains(err.Error(), "is not waiting for a decision") && !strings.Contains(err.Error(), "the audit trail contains no") {
				t.Fatalf("%s: %v, want it refused", what, err)
			}
			return !strings.Contains(err.Error(), "is not waiting for a decision")
		})
	}
	refused("not recorded", "theirs-1", workflows.UpdateCompensate, in)
	// Ada's own is recorded, and was not sent.
	if _, err := r.eyes.Exec(t.Context(), `insert into operator_actions (request_id, actor, action, target, reason, after, prev_hash, hash)
		select id || '/hers', 'uid:0(ada)', 'retry', event_id, 'looked at it', '{"status": "processing"}', 'x', 'y' from receipts`); err != nil {
		t.Fatal(err)
	}
	refused("of another verb", "hers", workflows.UpdateCompensate, in)
	other := in
	other.Effect = "finance-export"
	refused("about another effect", "hers", workflows.UpdateRetry, other)
	other = in
	other.Who = "uid:0(bob)"
	refused("in another's name", "hers", workflows.UpdateRetry, other)
	if got := r.rows(`select status from receipts`); got[0] != "dead" || r.done("finance") != 0 {
		t.Errorf("the event is %s, and finance has %d entries", got[0], r.done("finance"))
	}
	r.mustAsk(operator.VerbRetry, e)
	r.status(e, receipt.Processed)
}
