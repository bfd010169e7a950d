package flowtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	decides "github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

var subscriptionID = regexp.MustCompile(`sub_[A-Za-z0-9]+`)

// misreadings are errors of a parser. Each one changes the body of an event into one that a correct parser reads as
// the faulty parser read the original.
var misreadings = []func(seed string, body []byte) []byte{
	func(_ string, body []byte) []byte { return body }, // none
	func(_ string, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte("price_starter"), []byte("price_pro"))
	},
	func(_ string, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"quantity":1`), []byte(`"quantity":7`))
	},
	func(seed string, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"acct-`+seed), []byte(`"lost-`+seed))
	},
	func(_ string, body []byte) []byte {
		return subscriptionID.ReplaceAllFunc(body, func(id []byte) []byte { return slices.Concat(id, []byte("wrong")) })
	},
	func(_ string, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"amount_paid":4900`), []byte(`"amount_paid":4100`))
	},
}

// misreads makes customer n buy with the misread events, and returns the original events.
func (w drillWorld) misreads(n int, reads func(seed string, body []byte) []byte) (sent []forge.Event) {
	b := buyer{T: w.T, seed: fmt.Sprintf("%s-%02d", w.name, n)}
	for _, eventType := range []string{"customer.subscription.created", "invoice.paid"} {
		e := tells(eventType, "starter", 0, namesNoPlan)(b)
		truth := e.Body
		e.Body = reads(b.seed, truth)
		w.receive(e)
		e.Body = truth
		sent = append(sent, e)
	}
	return sent
}

// keepTruth replaces the stored bodies with the original ones, and marks their facts as facts of an older parser.
func (w drillWorld) keepTruth(sent []forge.Event) {
	for _, e := range sent {
		hash := sha256.Sum256(e.Body)
		w.exec(`update receipt_bodies set body = $2 where receipt_id = (select id from receipts where event_id = $1)`, e.ID, e.Body)
		w.exec(`update receipts set body_hash = $2 where event_id = $1`, e.ID, hash[:])
		w.exec(`update facts set reader = 0 where event_id = $1`, e.ID)
	}
}

// newRereadWorld returns a rig in which two customers buy for each parser error. If misread is set, the facts come
// from the misread events, and the stored bodies are the original ones.
func newRereadWorld(t *testing.T, misread bool) drillWorld {
	w := drillWorld{name: "drill-" + uuid.NewString()[:8]}
	w.rig = newRig(t, nil)
	for n := range 2 * len(misreadings) {
		reads := misreadings[0]
		if misread {
			reads = misreadings[n/2]
		}
		sent := w.misreads(n, reads)
		for _, e := range sent {
			w.status(e, receipt.Processed)
		}
		if misread && n/2 > 0 {
			w.keepTruth(sent)
		}
	}
	w.settled()
	return w
}

// held returns the state of the rig, except accounts that no object belongs to any more. Those accounts are
// suspended.
func (w drillWorld) held() map[string][]string {
	found := w.holds()
	for name := range found {
		found[name] = slices.DeleteFunc(found[name], func(line string) bool {
			return strings.Contains(line, " suspended ")
		})
	}
	return found
}

// reads parses the stored bodies again, applies the changes, and waits until the job is finished.
func (w drillWorld) reads(found *rules.Reread, pause bool) {
	w.Helper()
	reading := "reread-" + uuid.NewString()[:8]
	decide := func(d decides.Decision) {
		w.Helper()
		d.Actor, d.Reason = "ada", "the reader had a fault"
		if _, err := w.operatorOver(w.Pool).Decide(w.Context(), d); err != nil {
			w.Fatal(err)
		}
	}
	apply := decides.Decision{Verb: rules.ApplyReading.Name, Target: reading, Request: reading,
		Args: decides.Args{Found: &rules.RereadDecision{Reread: found, Rate: 20}}}
	decide(apply)
	decide(apply) // a repeated request is applied once
	if pause {
		decide(decides.Decision{Verb: "pause-job", Target: reading})
		decide(decides.Decision{Verb: "resume-job", Target: reading})
	}
	w.until("the job is finished", func() bool {
		d, err := jobs.Show(w.Context(), w.operator(), reading, "", 100)
		if err != nil {
			w.Fatal(err)
		}
		if d.Failed+d.Refused > 0 {
			w.Fatalf("job %+v: %+v", d.Job, d.List)
		}
		return d.State == job.Finished
	})
	w.settled()
}

// Parsing again corrects the facts of a faulty parser: prices, seats, accounts and objects then have the right
// values. The correction books and sends nothing.
func TestReread_MisreadBodies_AsInTheTwinWorld(t *testing.T) {
	t.Parallel()
	twin, w := newRereadWorld(t, false), newRereadWorld(t, true)
	policy := process.BillingPolicy(w.Config)
	wrong := w.held()
	if want := twin.held(); maps.EqualFunc(wrong, want, slices.Equal) {
		t.Fatal("nothing was misread")
	}
	w.exec(`delete from receipt_bodies where receipt_id in (select id from receipts where event_id like $1)`, "%-00%")
	const others = `select from tasks where kind <> 'entry_differs'`
	before := fmt.Sprint(w.done("finance"), w.done("email"), len(w.rows(others)))
	again := func(filter rebuild.PayloadFilter) *rules.Reread {
		t.Helper()
		found, err := rules.ReadAgain(t.Context(), w.Pool, policy, nil, filter, nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	zero, one := 0, 1
	if found := again(rebuild.PayloadFilter{Parser: &one}); len(found.Facts) > 0 || found.Read != 2 {
		t.Errorf("of what today's reader has read, %d facts of %d events come out differently", len(found.Facts), found.Read)
	}
	found := again(rebuild.PayloadFilter{Parser: &zero})
	if found.Read != 4*(len(misreadings)-1) || len(found.Gone) > 0 || len(found.Accounts) < 2*(len(misreadings)-1) {
		t.Errorf("read %d, gone %v, hit %+v", found.Read, found.Gone, found.Counts)
	}
	if found := again(rebuild.PayloadFilter{}); len(found.Gone) != 2 {
		t.Errorf("missing are %v, want the two events with deleted bodies", found.Gone)
	}
	w.reads(found, true)
	compare := func(when string, want map[string][]string) {
		t.Helper()
		for name, got := range w.held() {
			if !slices.Equal(got, want[name]) && name != "entries" {
				t.Errorf("%s: %s\n got %q\nwant %q", when, name, got, want[name])
			}
		}
		if left, err := rules.CheckRows(t.Context(), w.Pool, billing.Scope{}, policy, nil); err != nil || len(left) > 0 {
			t.Errorf("%s the rows differ from the fold of the facts: %v, %v", when, left, err)
		}
		if after := fmt.Sprint(w.done("finance"), w.done("email"), len(w.rows(others))); after != before {
			t.Errorf("%s there are %s entries, mails and tasks, before there were %s", when, after, before)
		}
	}
	compare("after the reading", twin.held())
	asked := func(when string, want int) {
		t.Helper()
		if open := w.rows(`select title from tasks where kind = 'entry_differs' and state = 'open'`); len(open) != want {
			t.Errorf("%s open tasks %q, want %d", when, open, want)
		}
	}
	asked("after the reading", 4) // two events with another account, two with another amount
	if found := again(rebuild.PayloadFilter{}); len(found.Facts) > 0 {
		t.Errorf("read once more, these differ: %+v", found.Facts)
	}
	if n := w.rows(`select distinct data ->> 'reason' from outbox where data ? 'reason'`); !slices.Equal(n, []string{"payloads"}) {
		t.Errorf("the news name the causes %q", n)
	}
}

// An old parser omitted the tax. After parsing again, the entry has the same amount and another tax. One task shows
// both entries, and the finance sink receives one correction of the tax.
func TestReread_TaxAlone_AskedAndCorrected(t *testing.T) {
	t.Parallel()
	w := drillWorld{rig: newRig(t, nil), name: "tax-" + uuid.NewString()[:8]}
	x := &telling{judged: judged{events: []happening{
		subscription("created", 0, "active", items(item("pro", 1))),
		bill("paid", 0, "in_1", lines(line("pro", 2000)), first, set("total_taxes", []any{payload{"amount": 319, "tax_behavior": "inclusive"}})),
	}}, tag: fmt.Sprintf("-%s-v0", uuid.NewString()[:8]), begin: time.Now().Add(-20 * 24 * time.Hour).Truncate(time.Second)}
	w.come("it has ended", []string{w.deliver(x, 0)}, receipt.Processed)
	truth := x.event(1)
	misread := truth
	misread.Body = bytes.ReplaceAll(truth.Body, []byte(`"amount":319`), []byte(`"amount":0`))
	w.receive(misread)
	w.status(misread, receipt.Processed)
	w.keepTruth([]forge.Event{truth})
	found, err := rules.ReadAgain(t.Context(), w.Pool, process.BillingPolicy(w.Config), nil, rebuild.PayloadFilter{}, nil)
	if err != nil || len(found.Facts) != 1 || !slices.Equal(found.Facts[0].Fields, []string{"Invoice.Tax"}) {
		t.Fatalf("read again: %+v, %v; want the tax alone", found, err)
	}
	w.reads(found, false)
	asked := w.rows(`select title from tasks where kind = 'entry_differs' and state = 'open'`)
	if len(asked) != 1 || !strings.Contains(asked[0], "0.00 USD of it tax") || !strings.Contains(asked[0], "3.19 USD of it tax") {
		t.Errorf("open tasks %q, want both figures once", asked)
	}
	if n := w.done("finance"); n != 1 {
		t.Errorf("finance has %d entries before the answer", n)
	}
	o := w.operator()
	o.FourEyes = true
	confirms := ""
	for i, who := range []string{"ada", "bob"} {
		d := decides.Decision{Verb: money.Correct.Name, Target: x.own("in_1"), Reason: "the reader read no tax"}
		of(who)(&d)
		d.Confirms = confirms
		a, err := o.Decide(t.Context(), d)
		if err != nil || (a.Pending != nil) != (i == 0) || i == 0 && a.Pending.Money["usd"] != 319 {
			t.Fatalf("%s: %+v, %v", who, a, err)
		}
		if a.Pending != nil {
			confirms = a.Pending.ID
		}
	}
	w.until("finance has the correction", func() bool { return w.done("finance") == 2 })
	w.settled()
	correction := w.journal("finance")[1].Body
	for field, want := range map[string]any{"kind": "correction", "amount": 0, "tax": 319, "currency": "usd", "corrects": "finance-export:stripe:live:" + x.own("in_1")} {
		if got := correction[field]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s of the correction is %v, want %v", field, got, want)
		}
	}
	if open := w.rows(`select title from tasks where state = 'open'`); len(open) > 0 {
		t.Errorf("people are still asked %q", open)
	}
	if again, err := rules.ReadAgain(t.Context(), w.Pool, process.BillingPolicy(w.Config), nil, rebuild.PayloadFilter{}, nil); err != nil || len(again.Facts) > 0 {
		t.Errorf("read once more: %+v, %v", again, err)
	}
}
