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
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

var subscriptionID = regexp.MustCompile(`sub_[A-Za-z0-9]+`)

// misreadings are what a reader with a fault found in place of what a body says: each makes the body that says so.
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

// misreads has the customer with that number buy, and returns what was sent: the events are taken as a misreading says.
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

// keepTruth makes the kept bodies say what was sent, and their facts those of an older reader.
func (w drillWorld) keepTruth(sent []forge.Event) {
	for _, e := range sent {
		hash := sha256.Sum256(e.Body)
		w.exec(`update receipt_bodies set body = $2 where receipt_id = (select id from receipts where event_id = $1)`, e.ID, e.Body)
		w.exec(`update receipts set body_hash = $2 where event_id = $1`, e.ID, hash[:])
		w.exec(`update facts set reader = 0 where event_id = $1`, e.ID)
	}
}

// newRereadWorld is a drill world in which two customers buy for each misreading. If it is misread, events are taken as
// the misreadings say, and the bodies that are kept say what was sent.
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

// held is what the world holds, without the accounts that nobody has any more: they are suspended.
func (w drillWorld) held() map[string][]string {
	found := w.holds()
	for name := range found {
		found[name] = slices.DeleteFunc(found[name], func(line string) bool {
			return strings.Contains(line, " suspended ")
		})
	}
	return found
}

// reads has kept bodies read again, or a reading undone, and returns what that was to change, and its ID.
func (w drillWorld) reads(found *operator.Reread, pause bool) (reading string) {
	w.Helper()
	reading = "reread-" + uuid.NewString()[:8]
	decide := func(d operator.Decision) {
		w.Helper()
		d.Who, d.Why = "ada", "the reader had a fault"
		if _, err := w.operatorOver(w.Pool).Decide(w.Context(), d); err != nil {
			w.Fatal(err)
		}
	}
	apply := operator.Decision{Verb: operator.VerbApplyReading, Target: reading, Request: reading,
		Args: operator.Args{Found: &operator.RereadDecision{Reread: found, Rate: 20}}}
	decide(apply)
	decide(apply) // a repeated request is one reading
	if pause {
		decide(operator.Decision{Verb: "pause-job", Target: reading})
		decide(operator.Decision{Verb: "resume-job", Target: reading})
	}
	w.until("the job is finished", func() bool {
		d, err := w.operator().ShowJob(w.Context(), reading, "", 100)
		if err != nil {
			w.Fatal(err)
		}
		if d.Failed+d.Refused > 0 {
			w.Fatalf("job %+v: %+v", d.Job, d.List)
		}
		return d.State == job.Finished
	})
	w.settled()
	return reading
}

// What a reader with a fault has made of bodies heals: prices, seats, accounts and objects are then as if it had never
// been. Nothing is booked or mailed for that. It can be undone, and that, too.
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
	again := func(filter rebuild.PayloadFilter) *operator.Reread {
		t.Helper()
		found, err := operator.ReadAgain(t.Context(), w.Pool, policy, nil, filter, nil)
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
		t.Errorf("gone are %v, want the two events whose bodies were deleted", found.Gone)
	}
	reading := w.reads(found, true)
	compare := func(when string, want map[string][]string) {
		t.Helper()
		for name, got := range w.held() {
			if !slices.Equal(got, want[name]) && name != "entries" {
				t.Errorf("%s: %s\n got %q\nwant %q", when, name, got, want[name])
			}
		}
		if left, err := operator.CheckRows(t.Context(), w.Pool, billing.Scope{}, policy, nil); err != nil || len(left) > 0 {
			t.Errorf("%s the rows are not what the facts come to: %v, %v", when, left, err)
		}
		if after := fmt.Sprint(w.done("finance"), w.done("email"), len(w.rows(others))); after != before {
			t.Errorf("%s there are %s entries, mails and tasks, before there were %s", when, after, before)
		}
	}
	compare("after the reading", twin.held())
	asked := func(when string, want int) {
		t.Helper()
		if open := w.rows(`select title from tasks where kind = 'entry_differs' and state = 'open'`); len(open) != want {
			t.Errorf("%s people are asked %q, want %d", when, open, want)
		}
	}
	asked("after the reading", 4) // two of other accounts, two of another amount
	if found := again(rebuild.PayloadFilter{}); len(found.Facts) > 0 {
		t.Errorf("read once more, these differ: %+v", found.Facts)
	}
	undo := func(of string) string {
		t.Helper()
		found, err := operator.UndoReading(t.Context(), w.Pool, policy, of, nil)
		if err != nil || len(found.Facts) == 0 {
			t.Fatalf("undo %s: %+v, %v", of, found, err)
		}
		return w.reads(found, false)
	}
	undone := undo(reading)
	compare("after the undo", wrong)
	asked("after the undo", 0)
	if found := again(rebuild.PayloadFilter{}); len(found.Facts) > 0 {
		t.Errorf("what was undone is asked for again: %+v", found.Facts)
	}
	if found, err := operator.UndoReading(t.Context(), w.Pool, policy, reading, nil); err != nil || len(found.Facts) > 0 {
		t.Errorf("a second undo would change %+v, %v", found, err)
	}
	undo(undone)
	compare("after the undo of the undo", twin.held())
	if n := w.rows(`select distinct data ->> 'cause' from outbox where data ? 'cause'`); !slices.Equal(n, []string{"reread"}) {
		t.Errorf("the news name the causes %q", n)
	}
}

// A reader has read no tax. Read again, the entry has the same amount and another tax: a person is asked once with both
// figures, and a correction of the tax alone goes to finance, once.
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
	found, err := operator.ReadAgain(t.Context(), w.Pool, process.BillingPolicy(w.Config), nil, rebuild.PayloadFilter{}, nil)
	if err != nil || len(found.Facts) != 1 || !slices.Equal(found.Facts[0].Fields, []string{"Invoice.Tax"}) {
		t.Fatalf("read again: %+v, %v; want the tax alone", found, err)
	}
	w.reads(found, false)
	asked := w.rows(`select title from tasks where kind = 'entry_differs' and state = 'open'`)
	if len(asked) != 1 || !strings.Contains(asked[0], "0.00 USD of it tax") || !strings.Contains(asked[0], "3.19 USD of it tax") {
		t.Errorf("people are asked %q, want both figures once", asked)
	}
	if n := w.done("finance"); n != 1 {
		t.Errorf("finance has %d entries before the answer", n)
	}
	o := w.operator()
	o.FourEyes = true
	confirms := ""
	for i, who := range []string{"ada", "bob"} {
		d := operator.Decision{Verb: operator.VerbCorrect, Target: x.own("in_1"), Why: "the reader read no tax"}
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
	if again, err := operator.ReadAgain(t.Context(), w.Pool, process.BillingPolicy(w.Config), nil, rebuild.PayloadFilter{}, nil); err != nil || len(again.Facts) > 0 {
		t.Errorf("read once more: %+v, %v", again, err)
	}
}
