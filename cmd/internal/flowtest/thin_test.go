package flowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	stripeapi "github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// thinOf returns the thin event of a snapshot event.
func thinOf(t *testing.T, e forge.Event) forge.Event {
	t.Helper()
	thin, err := forge.Thin(e)
	if err != nil {
		t.Fatal(err)
	}
	return thin
}

// lostOf returns the event that Stripe sends instead of a snapshot event that it could not generate.
func lostOf(t *testing.T, e forge.Event) forge.Event {
	t.Helper()
	object := gjson.GetBytes(e.Body, "data.object")
	lost := forge.Event{ID: e.ID + "_lost", Type: stripeapi.FailedGeneration}
	event := map[string]any{
		"id": lost.ID, "object": "v2.core.event", "type": lost.Type, "livemode": true, "created": time.Now().UTC().Format(time.RFC3339Nano),
	}
	encode := func() []byte {
		body, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	lost.Body = encode()
	event["data"] = map[string]any{"alert_id": "halert_1", "impact": map[string]any{"event_type": e.Type,
		"related_object": map[string]any{"id": object.Get("id").Str, "type": object.Get("object").Str}}}
	lost.Whole = encode()
	return lost
}

// Stripe does not list events that it could not generate. The object of such an event is fetched and reconciled, and no
// e-mail is sent.
func TestLostEvent_ItsObjectReconciled(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	paid := purchase(t, "lost-"+uuid.NewString()[:8], "invoice.paid", "pro")
	refund := rename(t, purchase(t, seedOf(paid), "refund.updated", "pro"), paid.ID+"_refund")
	tie := rename(t, purchase(t, seedOf(paid), "invoice_payment.paid", "pro"), paid.ID+"_tie")
	r.tell(paid, tie, refund)
	for _, e := range []forge.Event{lostOf(t, paid), lostOf(t, refund)} {
		r.tell(e)
		r.receive(e)
		r.status(e, receipt.Processed)
	}
	r.settled()
	if got := r.rows(`select target_plan || ' ' || target_state from accounts where target_state <> ''`); !slices.Equal(got, []string{"pro active"}) {
		t.Errorf("accounts %q", got)
	}
	if got := r.rows(`select kind from finance_entries order by kind`); !slices.Equal(got, []string{"payment", "refund"}) || r.done("email") != 0 {
		t.Errorf("booked %v, and %d letters; want the payment and the refund, and no letter", got, r.done("email"))
	}
	nameless := lostOf(t, paid)
	nameless.ID += "2"
	nameless = change(t, nameless, func(body map[string]any) { body["id"] = nameless.ID })
	nameless.Whole = nameless.Body
	r.tell(nameless)
	r.receive(nameless)
	r.status(nameless, receipt.NeedsReview)
}

// During a migration two endpoints receive both forms of an event, in any order. Each effect is done once.
func TestThinEvents_EndpointPair_EffectsOnce(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	for i, thinFirst := range []bool{true, false} {
		paid := purchase(t, fmt.Sprintf("pair-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "pro")
		pair := []forge.Event{paid, thinOf(t, paid)}
		if thinFirst {
			slices.Reverse(pair)
		}
		r.tell(pair[0], pair[1])
		for _, e := range pair {
			r.receive(e)
			r.status(e, receipt.Processed)
		}
	}
	r.settled()
	for _, service := range []string{"finance", "email", "workspaces"} {
		if n := r.done(service); n != 2 {
			t.Errorf("%s has done %d, want 2", service, n)
		}
	}
}

// A thin event contains no object. If the source has a key, the object is fetched, and the event has the same effects
// as a snapshot event, including the e-mail. Without a key the run parks once and shows the reason.
func TestThinEvents_ObjectAskedFor_OrAPerson(t *testing.T) {
	t.Parallel()
	for _, key := range []bool{true, false} {
		r := newRigWith(t, key, nil)
		seed := "thin-" + uuid.NewString()[:8]
		begun, paid := purchase(t, seed+"a", "customer.subscription.created", "pro"), purchase(t, seed+"a", "invoice.paid", "pro")
		begun = rename(t, begun, begun.ID+"_created")
		r.tell(begun, paid)
		for _, e := range []forge.Event{thinOf(t, paid), thinOf(t, begun)} {
			r.receive(e)
			if !key {
				r.status(e, receipt.NeedsReview)
				if got := r.rows(`select reason_code from receipts where event_id = $1`, e.ID); !slices.Equal(got, []string{"thin_event"}) {
					t.Errorf("%s is reviewed for %q", e.Type, got)
				}
				continue
			}
			r.status(e, receipt.Processed)
		}
		if !key {
			continue
		}
		r.settled()
		if got := r.rows(`select target_plan || ' ' || target_state from accounts where target_state <> ''`); !slices.Equal(got, []string{"pro active"}) {
			t.Errorf("accounts %q", got)
		}
		if got := r.rows(`select distinct origin from facts where event_id = any($1)`, []string{paid.ID + "_thin", begun.ID + "_thin"}); !slices.Equal(got, []string{"fetched"}) {
			t.Errorf("the facts are %q", got)
		}
		if finance, mails := r.done("finance"), r.done("email"); finance != 1 || mails != 1 {
			t.Errorf("%d entries and %d letters, want one of each", finance, mails)
		}
	}
}

// A key of another account, mode or sandbox does not see the object of a thin event, and neither does a key while
// Stripe's API lags behind. The object is fetched again before the run parks, by a retry and by a replay. Nothing ends
// as processed without the object.
func TestThinEvents_ObjectNotShown_ParksUntilItIs(t *testing.T) {
	t.Parallel()
	const journal = `select concat_ws(' ', state, error_class, attempts >= 3) from effects where kind = 'fetch-object' and event_id = $1`
	for verb, again := range map[string]func(r *rig, e forge.Event, workflowID string){
		"retry": func(r *rig, e forge.Event, workflowID string) {
			r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
		},
		"replay": func(r *rig, e forge.Event, workflowID string) {
			r.decide(workflowID, workflows.UpdateSkip, workflows.DecisionInput{})
			if left := r.result(workflowID, ""); !strings.HasPrefix(left.Reason, "dismissed: nothing done: skipped by ada") {
				r.Errorf("skipped, the run ended with %+v", left)
			}
			r.replayed(e, workflowID)
		},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, true, nil)
			paid := purchase(t, "unseen-"+uuid.NewString()[:8], "invoice.paid", "pro")
			e := thinOf(t, paid)
			id := r.receive(e)
			r.status(e, receipt.NeedsReview)
			reason := r.rows(`select reason from receipts where event_id = $1`, e.ID)[0]
			if !strings.HasPrefix(reason, "object_not_found: ") || !strings.Contains(reason, "check that the key belongs to the account and mode of the event") {
				t.Errorf("it is parked because %q", reason)
			}
			if got := r.rows(journal, e.ID); !slices.Equal(got, []string{"failed permanent t"}) {
				t.Errorf("fetching is %v", got)
			}
			r.tell(paid)
			again(r, e, id)
			r.status(e, receipt.Processed)
			if finance, mails := r.done("finance"), r.done("email"); finance != 1 || mails != 1 {
				t.Errorf("%d entries and %d letters, want one of each", finance, mails)
			}
		})
	}
}

// Stripe no longer has a draft after the event of its deletion. Any other missing object parks the run.
func TestThinEvents_DraftDeleted_NothingDone(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	e := thinOf(t, purchase(t, "deleted-"+uuid.NewString()[:8], "invoice.created", "pro"))
	e = change(t, e, func(body map[string]any) { body["type"] = "v1.invoice.deleted" })
	e.Type = "v1.invoice.deleted"
	r.receive(e)
	r.status(e, receipt.Processed)
	if got := r.rows(`select reason_code from receipts where event_id = $1`, e.ID); !slices.Equal(got, []string{"dismissed"}) {
		t.Errorf("the reason is %q", got)
	}
}

// The thin events of a sign-up arrive before the event that names the account. Each effect is done once for this
// account, as with snapshot events. Parsing the stored bodies again assigns the account, and keeps the fetched objects.
func TestThinEvents_WaitForTheNameOfTheirAccount(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, namedWithin(time.Minute))
	x := &telling{judged: judged{events: signup}, tag: "-" + uuid.NewString()[:8] + "-v0", begin: time.Now().Add(-10 * time.Second).Truncate(time.Second)}
	r.happened(x)
	var thin []forge.Event
	for _, n := range []int{4, 7} { // the paid invoice, and the subscription that is active
		e := thinOf(t, x.event(n))
		r.receive(e)
		thin = append(thin, e)
	}
	for _, e := range thin {
		r.until("it waits for the name", func() bool {
			return len(r.rows(`select 1 from effects where event_id = $1 and kind = 'fetch-object' and state = 'done'`, e.ID)) == 1 && len(r.timers("stripe:"+e.ID)) > 0
		})
	}
	if got := r.rows(`select id from accounts`); len(got) > 0 {
		t.Errorf("accounts %q, before one is named", got)
	}
	session := len(signup) - 1
	r.come("it has ended", []string{r.deliver(x, session), thin[0].ID, thin[1].ID}, receipt.Processed)
	r.settled()
	want := []string{"sub_1: acme active pro 1", "in_1: acme paid 2000", "cs_1: acme complete paid 1500", "sub_1 grants pro 1", "acme: active pro 1",
		"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"}
	if diff := differs(x.relative(r.sight(judgedSQL)[0]), want); diff != "" {
		t.Error(diff)
	}
	found, err := rules.ReadAgain(t.Context(), r.Pool, process.BillingPolicy(r.Config), nil, rebuild.PayloadFilter{}, nil)
	if err != nil || found.Read != 1 || len(found.Thin) != 2 || len(found.Unreadable) > 0 || len(found.Facts) > 0 {
		t.Errorf("read again: %+v, %v; want the session read, and two thin events named", found, err)
	}
}

// The preview of a thin event that is parked without a key reports that it parks again. With a key it reports that pawl
// fetches the object and that the rest depends on it.
func TestThinEvents_Parked_PreviewSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := thinOf(t, purchase(t, "thin-"+uuid.NewString()[:8], "invoice.paid", "pro"))
	r.receive(e)
	r.status(e, receipt.NeedsReview)
	approve := decide.Decision{Target: e.ID, Verb: event.Approve.Name}
	o := r.operator()
	if p, err := o.Preview(t.Context(), approve); err != nil || p.Outcome != string(receipt.NeedsReview) || len(p.Effects) > 0 {
		t.Errorf("without a key: %v, %+v", err, p)
	}
	cfg := *r.Config
	cfg.Sources = maps.Clone(cfg.Sources)
	source := cfg.Sources["stripe"]
	source.APIKey, source.APIURL = source.Secrets[0].Value, r.sandbox.URL()+"/stripe"
	cfg.Sources["stripe"] = source
	o.Outlook = process.Outlook(&cfg, r.Pool, r.Receipts)
	p, err := o.Preview(t.Context(), approve)
	if err != nil || !p.Asks || len(p.Effects) != 2 || p.Effects[0].Kind != "fetch-object" || !strings.Contains(p.Effects[0].Reason, "the following effects depend on it") {
		t.Errorf("with a key: %v, %+v", err, p)
	}
}
