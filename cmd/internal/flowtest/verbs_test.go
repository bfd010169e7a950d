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
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// operator returns the operator of the command line for this rig's Temporal, with the database role of a worker.
func (r *rig) operator() *decide.Operator { return r.operatorOver(r.worker) }

// operatorOver returns an operator for this rig's Temporal and a pool of its database.
func (r *rig) operatorOver(db *pgxpool.Pool) *decide.Operator {
	receipts := receipt.NewStore(db, receipt.Options{})
	r.Cleanup(receipts.Close)
	return &decide.Operator{
		Verbs: operator.Verbs, DB: db, Temporal: r.Temporal, Audit: audit.New(db, slog.New(slog.DiscardHandler)), Relays: process.RelaysOf(r.Config),
		Unstick: decide.Unstick(r.Temporal, "default"), Outlook: process.Outlook(r.Config, db, receipts), TaskQueue: r.Config.Temporal.TaskQueue,
		Policy: process.BillingPolicy(r.Config), Insert: receipts.Insert, Places: map[string][]string{decide.Sink: {"finance"}, decide.Source: {"stripe"}},
	}
}

// says makes a decision that must be accepted.
func (r *rig) says(who, verb, target, why string, args decide.Args) *decide.Answer {
	r.Helper()
	answer, err := r.operator().Decide(r.Context(), decide.Decision{Verb: verb, Target: target, Actor: who, Reason: why, Args: args})
	if err != nil {
		r.Fatalf("%s: %v", verb, err)
	}
	return answer
}

// answer is the answer to a decision about an event.
type answer struct {
	*decide.Answer
	*event.Result
}

// ask makes a decision about an event as ada.
func (r *rig) ask(verb string, e forge.Event, change ...func(*decide.Decision)) (answer, error) {
	r.Helper()
	a := decide.Decision{Verb: verb, Target: e.ID, Actor: "uid:1(ada)", Reason: "looked at it"}
	for _, c := range change {
		c(&a)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	var got *decide.Answer
	var err error
	// The receipt shows that a run parks a moment before the run can accept a decision.
	r.until(verb+" is answered", func() bool {
		got, err = r.operator().Decide(ctx, a)
		return err == nil || !strings.Contains(err.Error(), "processes another decision")
	})
	if err != nil {
		return answer{}, err
	}
	return answer{got, got.Result.(*event.Result)}, nil
}

func (r *rig) mustAsk(verb string, e forge.Event, change ...func(*decide.Decision)) answer {
	r.Helper()
	answer, err := r.ask(verb, e, change...)
	if err != nil {
		r.Fatalf("%s: %v", verb, err)
	}
	return answer
}

func effectOf(name string) func(*decide.Decision) {
	return func(a *decide.Decision) { a.Effect = name }
}

func (r *rig) key(kind string) string {
	r.Helper()
	return r.rows(`select key from effects where kind = $1`, kind)[0]
}

// show returns the details of an event.
func (r *rig) show(e forge.Event) *timeline.Event {
	r.Helper()
	event, err := event.Show(r.Context(), r.Pool, e.ID)
	if err != nil {
		r.Fatal(err)
	}
	return event
}

// An entry that a person has booked by hand is marked as done, with the ID of the finance sink. Nothing is sent, and a
// compensation books a reversing entry.
func TestVerbs_Done_ThenCompensated(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown, tooLate)
	e := purchase(t, "done-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	answer := r.mustAsk(event.Done.Name, e, effectOf("finance-export"), func(a *decide.Decision) { a.Reference = "entry 4711" })
	if !slices.Equal(answer.About, []string{r.key("finance-export")}) || len(answer.Effects) != 2 {
		t.Errorf("answered %+v", answer)
	}
	r.status(e, receipt.NeedsReview) // the e-mail is uncertain
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
		t.Error("the timeline does not contain the actor")
	}
	r.mustAsk(event.Compensate.Name, e)
	if result := r.result(id, ""); result.Outcome != "compensated" {
		t.Errorf("ended %s (%s)", result.Outcome, result.Reason)
	}
	var kinds []string
	for _, entry := range r.journal("finance") {
		kinds = append(kinds, fmt.Sprint(entry.Body["kind"], " of ", entry.Body["reverses"]))
	}
	if !slices.Equal(kinds, []string{"reversal of " + r.key("finance-export")}) {
		t.Errorf("finance has %v, want a reversal of the entry that was booked by hand", kinds)
	}
	if got := r.effects(e)["finance-export"]; got != "compensated" {
		t.Errorf("the entry is %s in the ledger", got)
	}
}

// A retry skips an uncertain e-mail. Resend starts a new generation with its own Message-ID.
func TestVerbs_Resend_NewGeneration(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(tooLate)
	e := purchase(t, "resend-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.NeedsReview)
	var refused *decide.RefusedError
	if _, err := r.ask(event.Retry.Name, e); !errors.As(err, &refused) || !strings.Contains(err.Error(), "resend "+e.ID) {
		t.Errorf("a retry of an uncertain effect: %v, want a refusal that names resend", err)
	}
	if _, err := r.ask(event.Resend.Name, e); !errors.As(err, &refused) || !strings.Contains(err.Error(), "confirm with the key of the effect") {
		t.Errorf("not confirmed: %v", err)
	}
	key := r.key("receipt-email")
	confirm := func(a *decide.Decision) { a.Confirm, a.Request = key, "resend-1" }
	r.mustAsk(event.Resend.Name, e, confirm)
	r.result(id, "")
	// The response was lost, and the run has ended since.
	if again := r.mustAsk(event.Resend.Name, e, confirm); !again.Repeated || !slices.Equal(again.About, []string{key}) {
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

// Of two effects that are not done, one is retried.
func TestVerbs_RetryOfOneEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(`{"service":"finance","next":3,"status":503}`, `{"service":"workspaces","status":404}`)
	e := purchase(t, "one-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	r.mustAsk(event.Retry.Name, e, effectOf("finance-export"))
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
	r.mustAsk(event.Retry.Name, e)
	if result := r.result(id, ""); result.Outcome != "processed" || r.done("workspaces") != 1 || r.done("finance") != 1 {
		t.Errorf("ended %s with %d workspaces and %d entries", result.Outcome, r.done("workspaces"), r.done("finance"))
	}
}

// A review at the end of a run. If it is approved, everything stays. If it is rejected, the grant is withheld, and the
// payment stays booked.
func TestVerbs_ReviewAtEnd(t *testing.T) {
	t.Parallel()
	for verb, reason := range map[string]string{event.Approve.Name: "", event.Reject.Name: "withheld: uid:1(ada) decided to reject: looked at it"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			e := paidAfterEnd(t, r)
			id := r.receive(e)
			r.status(e, receipt.NeedsReview)
			if _, err := r.ask(event.Retry.Name, e); err == nil || !strings.Contains(err.Error(), "events approve") || !strings.Contains(err.Error(), "events reject") {
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

// paidAfterEnd ends a subscription, and returns the event of a later payment.
func paidAfterEnd(t *testing.T, r *rig) forge.Event {
	t.Helper()
	e := purchase(t, "late-"+uuid.NewString()[:8], "invoice.paid", "starter")
	sent("customer.subscription.created", -time.Hour)(r, e)
	sent("customer.subscription.deleted", -time.Minute)(r, e)
	return e
}

// A repeated or concurrent request is one decision.
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
			_, err := r.ask(event.Retry.Name, e, func(a *decide.Decision) { a.Request = "retry-1" })
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

// An update from another Temporal client is rejected: a run accepts only a decision that pawl has recorded, with the
// recorded arguments.
func TestVerbs_DecisionNotRecorded_NotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, "foreign-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	in := workflows.DecisionInput{Actor: "uid:0(ada)", Reason: "looked at it"}
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
	// Ada's decision is recorded, but was not sent.
	if _, err := r.eyes.Exec(t.Context(), `insert into operator_actions (request_id, actor, action, target, reason, after, prev_hash, hash)
		select id || '/hers', 'uid:0(ada)', 'retry', event_id, 'looked at it', '{"status": "processing"}', 'x', 'y' from receipts`); err != nil {
		t.Fatal(err)
	}
	refused("of another verb", "hers", workflows.UpdateCompensate, in)
	other := in
	other.Effect = "finance-export"
	refused("about another effect", "hers", workflows.UpdateRetry, other)
	other = in
	other.Actor = "uid:0(bob)"
	refused("in another's name", "hers", workflows.UpdateRetry, other)
	if got := r.rows(`select status from receipts`); got[0] != "dead" || r.done("finance") != 0 {
		t.Errorf("the event is %s, and finance has %d entries", got[0], r.done("finance"))
	}
	r.mustAsk(event.Retry.Name, e)
	r.status(e, receipt.Processed)
}

// An entry is skipped after an attempt without an answer. Finance may have booked it, so it is not added to the entries
// that are not booked.
func TestVerbs_Skip_EntryPerhapsBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(`{"service":"finance","next":3,"mode":"drop_after_accept"}`)
	e := purchase(t, "skip-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.mustAsk(event.Skip.Name, e)
	r.result(id, "")
	sums, err := account.SkippedSums(t.Context(), r.Pool, account.EntryFilter{Mode: "live", Limit: 10})
	if want := []account.SkippedSum{{Currency: "usd", Entries: 1, PerhapsBooked: 4900}}; err != nil || !slices.Equal(sums, want) {
		t.Errorf("the sums are %+v, %v; want %+v", sums, err, want)
	}
}

// A person skips an entry and an e-mail. The entry is listed as skipped, with the person, the reason and the money, and
// its money is not among the booked money.
func TestVerbs_Skip_EntryIsListedAsNotBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown, tooLate)
	e := purchase(t, "skip-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.mustAsk(event.Skip.Name, e)
	r.result(id, "")
	f := account.EntryFilter{Mode: "live", Limit: 10}
	got, err := account.SkippedEntries(t.Context(), r.Pool, f)
	if err != nil || len(got) != 1 {
		t.Fatalf("skipped %+v, %v; want one entry", got, err)
	}
	want := account.SkippedEntry{Key: r.key("finance-export"), Mode: "live", Account: got[0].Account, Kind: "payment", Object: got[0].Object, Invoice: got[0].Object,
		Number: got[0].Number, Amount: 4900, Currency: "usd", Cash: 4900, OccurredAt: got[0].OccurredAt, Event: e.ID, Actor: "uid:1(ada)", Reason: "looked at it", SkippedAt: got[0].SkippedAt}
	if got[0] != want || got[0].OccurredAt.IsZero() || got[0].SkippedAt.Before(got[0].OccurredAt) {
		t.Errorf("skipped %+v, want %+v", got[0], want)
	}
	sums, err := account.SkippedSums(t.Context(), r.Pool, f)
	if want := []account.SkippedSum{{Currency: "usd", Entries: 1, Amount: 4900, Cash: 4900}}; err != nil || !slices.Equal(sums, want) {
		t.Errorf("the sums are %+v, %v; want %+v", sums, err, want)
	}
	if booked := r.rows(`select effect_key from finance_entries`); len(booked) > 0 {
		t.Errorf("booked %q", booked)
	}
}
