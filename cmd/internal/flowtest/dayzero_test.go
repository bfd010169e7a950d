package flowtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/importer"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// A new installation starts with an API key for a Stripe account that has existed for a year. pawl runs no effects
// for an event from before the first start, whether the event is delivered, imported or reconciled. The first event
// after the start has its effects. A withheld event can be released once.
func TestDayZero_BesideALivingAccount_NothingOfThePastIsSent(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, func(c *config.Config) {
		scheduled(c)
		toSandbox(c)
		c.Policy.Backfill, c.Effects.From = "auto", config.EffectsNow
	})
	if err := r.CheckSchema(t.Context()); err != nil { // every process does this when it starts
		t.Fatal(err)
	}
	now, run := time.Now().UTC().Truncate(time.Second), uuid.NewString()[:8]
	var recent []forge.Event
	for customer := range 3 {
		r.tell(purchaseAt(t, fmt.Sprintf("subscriber-%s-%d", run, customer), "customer.subscription.created", "starter", now.AddDate(-1, 0, 0)))
		for month := range 12 {
			at := now.Add(-time.Duration(customer+1)*time.Hour).AddDate(0, -month, 0)
			e := purchaseAt(t, fmt.Sprintf("year-%s-%d-%d", run, customer, month), "invoice.paid", "starter", at)
			if r.tell(e); month == 0 {
				recent = append(recent, e)
			}
		}
	}
	if _, came := r.trigger(schedules.Gaps + "stripe"); len(r.rows(`select event_id from receipts`)) != 0 {
		t.Errorf("before an import and a delivery the search returned %+v", came)
	}
	result, err := importer.Run(t.Context(), importer.Config{
		Pool: r.Pool, API: r.api(), Source: "stripe", Mode: webhook.Live, Policy: process.BillingPolicy(r.Config), OnPage: func(string, int) {},
	})
	if err != nil || result.Read["subscriptions"] == 0 || len(result.Effects) == 0 {
		t.Fatalf("the import read %+v, %v", result, err)
	}
	r.trigger(schedules.Gaps + "stripe")
	for _, e := range recent {
		r.status(e, receipt.Processed)
	}
	if got := r.received(); got != nothing {
		t.Errorf("after the import and the search for missing events: %s", got)
	}
	// Stripe retries a delivery for days
	late := purchaseAt(t, "late-"+run, "invoice.paid", "starter", now.Add(-time.Minute))
	r.result(r.receive(late), "")
	if got := r.received(); got != nothing {
		t.Errorf("after an old event was delivered late: %s", got)
	}
	if got := r.withheld(); !slices.Contains(got, "4 finance-export196.00 USD") || !slices.Contains(got, "4 receipt-email") {
		t.Errorf("withheld %q, want the entries and the letters of four events", got)
	}

	r.result(r.receive(purchaseAt(t, "first-"+run, "invoice.paid", "starter", now.Add(2*time.Second))), "")
	if got, want := r.received(), "workspaces 1, finance 1, email 1, events 3, relayed 1"; got != want {
		t.Errorf("after the first new event: %s, want %s", got, want)
	}

	chosen, err := event.Choose(t.Context(), r.Pool, event.FilterOf(map[string]string{"status": "processed", "reason_code": workflows.CodeBeforeEffects}))
	if err != nil || len(chosen.Events) != 4 {
		t.Fatalf("%d events are chosen, %v; want 4", len(chosen.Events), err)
	}
	// The customers of the imported objects have no e-mail address at Stripe, so only one e-mail remains to be sent.
	release := &decide.NewJob{Job: job.Job{Action: event.Release.Name, Filter: map[string]string{"status": "processed"}, Rate: 50}, Chosen: chosen}
	preview, err := jobs.PreviewAll(t.Context(), r.operatorOver(r.Pool), nil, release)
	if err != nil || preview.Kinds["receipt-email"] != 1 || preview.Kinds["finance-export"] != 4 || preview.Refused != 0 {
		t.Errorf("the preview contains %+v, %v", preview, err)
	}
	b := bulkRig{rig: r}
	for n, want := range []int{4, 0} {
		id := fmt.Sprintf("release-%d-%s", n, run)
		b.mustStart(id, release)
		if d := b.await(id, "finished", state(job.Finished)); d.Done != want || d.Refused != 4-want {
			t.Errorf("job %d: %d done and %d refused of 4, want %d done", n, d.Done, d.Refused, want)
		}
		r.until("the entries are booked", func() bool { return len(r.journal("finance")) == 5 && len(r.journal("relayed")) == 5 })
	}
	for _, e := range append(recent, late) {
		r.status(e, receipt.Processed)
	}
	if got := r.rows(`select count(*)::text from finance_entries`); !slices.Equal(got, []string{"5"}) || r.done("email") != 2 || len(r.withheld()) != 0 {
		t.Errorf("%v entries, %d letters, withheld %v; want 5, 2 and none", got, r.done("email"), r.withheld())
	}
}
