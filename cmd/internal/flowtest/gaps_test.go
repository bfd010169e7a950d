package flowtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	sources "github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// impatiently is the retry policy for Stripe's API in tests.
var impatiently = stripe.Patience{Tries: 3, First: time.Millisecond}

func (r *rig) api() *stripe.Client {
	r.Helper()
	api, err := process.StripeAPI("stripe", r.Config.Sources["stripe"], quota.New(r.Pool))
	if err != nil {
		r.Fatal(err)
	}
	return api.With(impatiently)
}

func (r *rig) gaps() *sources.Gaps {
	r.Helper()
	source, err := process.Source(r.Config, providers, "stripe")
	if err != nil {
		r.Fatal(err)
	}
	return &sources.Gaps{
		API: r.api(), Source: "stripe", Connected: func(context.Context) ([]string, error) { return nil, nil }, Filed: source.Filed, Held: r.Receipts.Held,
		Now: time.Now,
	}
}

func (r *rig) find(from time.Time) *sources.GapReport {
	r.Helper()
	report, err := r.gaps().Find(r.Context(), from, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	return report
}

func missing(report *sources.GapReport) (ids []string) {
	for _, g := range report.Missing {
		ids = append(ids, g.EventID)
	}
	return ids
}

// Two of many events are never delivered. `pawl events backfill` finds and stores them even if Stripe answers with
// rate limits, and their effects run as after a delivery. If they are delivered later, they are duplicates and have
// no effects.
func TestGaps_NeverDelivered_FoundAndFiledOnce(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	const events = 120 // more than a page
	at := time.Now().Add(-time.Hour)
	var all, lost []forge.Event
	for i := range events {
		e := purchaseAt(t, fmt.Sprintf("gap-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "starter", at.Add(time.Duration(i)*time.Second))
		if all = append(all, e); i == 3 || i == 117 {
			lost = append(lost, e)
		}
	}
	unwanted := change(t, purchaseAt(t, "gap-"+uuid.NewString()[:8], "invoice.paid", "starter", at), func(body map[string]any) { body["type"] = "price.created" })
	r.tell(append(all, unwanted)...)
	for _, e := range all {
		if !slices.ContainsFunc(lost, func(l forge.Event) bool { return l.ID == e.ID }) {
			r.receive(e)
		}
	}
	r.fault(`{"service":"stripe","status":429,"next":2}`)
	report := r.find(at.Add(-time.Hour))
	if got := missing(report); !slices.Equal(got, []string{lost[0].ID, lost[1].ID}) || report.Listed != events+1 || report.Unwanted != 1 {
		t.Fatalf("missing %v of %d listed and %d unwanted, want %s and %s", got, report.Listed, report.Unwanted, lost[0].ID, lost[1].ID)
	}
	r.says("ada", sources.Backfill.Name, "stripe", "the ingress was away", decide.Args{Found: report})
	for _, e := range lost {
		r.status(e, receipt.Processed)
	}
	again := r.find(at.Add(-time.Hour))
	if len(again.Missing) != 0 {
		t.Errorf("still missing: %v", missing(again))
	}
	for _, e := range lost { // Stripe delivers them late
		r.receive(e)
	}
	r.until("all is done", func() bool {
		return r.rows(`select count(*)::text from receipts where status = 'processed'`)[0] == fmt.Sprint(events)
	})
	if got := r.rows(`select duplicates::text || ' ' || secret_label from receipts where event_id = any($1)`, []string{lost[0].ID, lost[1].ID}); !slices.Equal(got, []string{"1 (api)", "1 (api)"}) {
		t.Errorf("duplicates and labels %q", got)
	}
	for _, service := range []string{"finance", "email", "workspaces"} {
		if n := r.done(service); n != events {
			t.Errorf("%s has done %d, want %d", service, n, events)
		}
	}
	found, err := timeline.Find(t.Context(), r.Pool, lost[0].ID)
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	shown, err := timeline.Show(t.Context(), r.Pool, found[0].ID)
	if err != nil || !slices.ContainsFunc(shown.Timeline, func(e timeline.Entry) bool {
		return strings.Contains(e.Detail, "read from the provider's API and not signed")
	}) {
		t.Errorf("the evidence does not contain the way of arrival: %+v, %v", shown.Timeline, err)
	}
	if got := r.rows(`select action || ' ' || target || ' ' || actor from operator_actions`); !slices.Equal(got, []string{"backfill stripe ada"}) {
		t.Errorf("audit trail %q", got)
	}
}

// An event counts as received if its snapshot or its thin form was delivered to any endpoint. A backfill at either
// endpoint finds an event that was delivered in neither form, and stores it once.
func TestGaps_ThinEvents_EitherFormCounts(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, neverHasty)
	const events, lost = 105, 7 // more than a page
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	var snapshots, thin []forge.Event
	for i := range events {
		e := purchaseAt(t, fmt.Sprintf("form-%s-%d", uuid.NewString()[:8], i), "invoice.paid", "starter", at.Add(time.Duration(i)*time.Second))
		snapshots, thin = append(snapshots, e), append(thin, thinOf(t, e))
	}
	r.tell(thin...)
	for i := range events {
		if thinToo := i%20 == 0; i != lost && (!thinToo || i%40 == 0) {
			r.receive(snapshots[i])
		}
		if i%20 == 0 {
			r.receive(thin[i])
		}
	}
	search := func(ofThin bool) *sources.GapReport {
		g := r.gaps()
		g.Thin = ofThin
		report, err := g.Find(t.Context(), at.Add(-time.Hour), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if got := missing(search(false)); !slices.Equal(got, []string{snapshots[lost].ID}) {
		t.Errorf("snapshot events missing: %v, want %s", got, snapshots[lost].ID)
	}
	report := search(true)
	if got := missing(report); !slices.Equal(got, []string{thin[lost].ID}) || report.Listed != events {
		t.Errorf("thin events missing: %v of %d, want %s", got, report.Listed, thin[lost].ID)
	}
	r.says("ada", sources.Backfill.Name, "stripe", "the ingress was away", decide.Args{Found: report})
	r.status(thin[lost], receipt.Processed)
	for _, ofThin := range []bool{false, true} {
		if again := search(ofThin); len(again.Missing) != 0 {
			t.Errorf("still missing: %v", missing(again))
		}
	}
	r.until("all is done", func() bool {
		return r.rows(`select count(*)::text from receipts where status <> 'processed'`)[0] == "0"
	})
	for _, service := range []string{"finance", "email", "workspaces"} {
		if n := r.done(service); n != events {
			t.Errorf("%s has done %d, want %d", service, n, events)
		}
	}
}

// Stripe lists events of the last 30 days. If the requested period is longer, the output reports that instead of "no
// gap".
func TestGaps_OlderThanStripeKeeps_Said(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	old := purchaseAt(t, "old-"+uuid.NewString()[:8], "invoice.paid", "starter", time.Now().AddDate(0, 0, -40))
	r.tell(old)
	report := r.find(time.Now().AddDate(0, 0, -60))
	if len(report.Missing) != 0 || report.KeptSince == nil || !report.From.Equal(*report.KeptSince) || time.Since(report.From) > 31*24*time.Hour {
		t.Errorf("report %+v, want it to begin 30 days ago and to contain a note", report)
	}
	if _, err := r.gaps().Find(t.Context(), time.Now().AddDate(0, 0, -60), time.Now().AddDate(0, 0, -40)); err == nil || !strings.Contains(err.Error(), "30 days") {
		t.Errorf("all of it is too old: %v", err)
	}
}
