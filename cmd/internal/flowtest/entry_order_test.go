package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

const waitsForEntry = `select reason from receipts where event_id = $1 and status = 'retrying' and reason_code = 'waiting_for_entry'`

// refundOfDead returns a refund whose run waits until the entry of its payment is booked. The payment is a dead
// letter.
func refundOfDead(t *testing.T) (r *rig, paid, refunded forge.Event, run string) {
	t.Helper()
	r = newRig(t, nil)
	seed := "order-" + uuid.NewString()[:8]
	of := func(eventType string) forge.Event {
		e := purchase(t, seed, eventType, "starter")
		return rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))
	}
	for _, eventType := range []string{"charge.succeeded", "invoice_payment.paid"} {
		r.result(r.receive(of(eventType)), "")
	}
	r.fault(`{"service": "finance", "status": 404}`)
	paid, refunded = of("invoice.paid"), of("refund.updated")
	r.receive(paid)
	r.status(paid, receipt.Dead)
	run = r.receive(refunded)
	r.until("the refund waits", func() bool { return len(r.rows(waitsForEntry, refunded.ID)) == 1 })
	r.clearFaults()
	return r, paid, refunded, run
}

// booked returns the kinds of the entries that the finance sink accepted, in order.
func (r *rig) booked() (kinds []string) {
	for _, e := range r.journal("finance") {
		if e.First {
			kinds = append(kinds, fmt.Sprint(e.Body["kind"]))
		}
	}
	return kinds
}

// A refund waits until the entry of its payment is booked. The receipt, the Temporal UI and events show report the
// wait. The waiting run claims no effect, sends nothing and does not park. It continues as soon as the payment's
// entry is completed, whether the effect succeeds or a person decides.
func TestEntryOrder_PaymentSettled_RefundGoesOn(t *testing.T) {
	t.Parallel()
	for action, want := range map[string][]string{
		workflows.UpdateRetry: {"payment", "refund"}, workflows.UpdateDone: {"refund"}, workflows.UpdateSkip: {"refund"},
		workflows.UpdateCompensate: {"refund"},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			r, paid, refunded, run := refundOfDead(t)
			key := r.rows(`select key from effects where kind = 'finance-export'`)[0]
			waits := "waits for " + key
			if got := r.rows(waitsForEntry, refunded.ID)[0]; got != "waiting_for_entry: "+waits {
				t.Errorf("the receipt shows %q", got)
			}
			r.until("a timer says what it waits for", func() bool { return slices.Contains(r.timers(run), "refund-entry "+waits) })
			found, err := event.Examine(t.Context(), r.operator(), refunded.ID)
			if err != nil || len(found.Next.Pending) != 1 || found.Next.Pending[0].WaitsFor != waits {
				t.Errorf("it shows %+v (%v)", found.Next, err)
			}
			if got := r.rows(`select key from effects where kind = 'refund-entry'`); len(got) > 0 {
				t.Errorf("the ledger has %v", got)
			}
			waiting, err := r.Receipts.Waiting(t.Context(), nil)
			if at := slices.IndexFunc(waiting, func(w receipt.Waiting) bool { return w.Status == receipt.Retrying }); err != nil || at < 0 || waiting[at].Count != 1 || waiting[at].Seconds != 0 {
				t.Errorf("counted as late: %+v (%v)", waiting, err)
			}
			in := workflows.DecisionInput{}
			if action == workflows.UpdateDone {
				in.Effect, in.Reference = "finance-export", "entry 4711"
			}
			begin := time.Now()
			r.decide("stripe:"+paid.ID, action, in)
			r.status(refunded, receipt.Processed)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it went on after %s", took)
			}
			if got := r.booked(); !slices.Equal(got, want) {
				t.Errorf("finance has %v, want %v", got, want)
			}
			if got := r.rows(`select key from effect_waits`); len(got) > 0 {
				t.Errorf("%v still wait", got)
			}
		})
	}
}

// The finance sink never receives a refund before its payment, and it receives each entry once, despite outages and
// killed workers. The environment variable PAWL_ENTRY_ORDER is the number of outages and kills.
func TestEntryOrder_OutagesAndKills_RefundNeverFirst(t *testing.T) {
	t.Parallel()
	incidents := int(number(t, "PAWL_ENTRY_ORDER", schematest.OrLong[uint64](8, 40)))
	r := newIdleRig(t, false, nil)
	random := rand.New(rand.NewPCG(schematest.Seed(t, 1), 1))
	faults := []string{
		`{"service":"finance","next":%d,"status":404}`, `{"service":"finance","next":%d,"status":503}`,
		`{"service":"finance","next":%d,"mode":"drop_after_accept"}`, `{"service":"finance","next":%d,"mode":"drop_before_accept"}`,
		`{"service":"finance","next":%d,"status":500}`,
	}
	types := []string{"invoice.paid", "charge.succeeded", "invoice_payment.paid", "refund.updated", "invoice.payment_succeeded"}
	var events []forge.Event
	kill := r.hire()
	for n := 0; n < incidents; n += 2 {
		r.fault(fmt.Sprintf(faults[random.IntN(len(faults))], 1+random.IntN(4)))
		life := fmt.Sprintf("outages-%s-%d", uuid.NewString()[:8], n)
		order := random.Perm(len(types))
		for i, at := range order {
			e := purchase(t, life, types[at], "starter")
			e = rename(t, e, e.ID+"_"+strings.ReplaceAll(types[at], ".", "_"))
			events = append(events, e)
			r.receive(e)
			if i == random.IntN(len(types)) {
				<-time.After(time.Duration(random.IntN(200)) * time.Millisecond) // a random moment for the kill
			}
		}
		kill()
		kill = r.hire()
	}
	r.clearFaults()
	open := func(reason string) []string {
		return r.rows(`select event_id from receipts where status in ('dead', 'needs_review') and (reason_code = 'effect_uncertain') = $1::bool`, reason)
	}
	r.until("all is done", func() bool {
		for _, id := range open("false") {
			_, _ = r.operator().Decide(t.Context(), decide.Decision{Target: id, Verb: workflows.UpdateRetry, Actor: "ann", Reason: "finance is back"})
		}
		for _, id := range open("true") { // the worker was killed while an e-mail was being sent
			_, _ = r.operator().Decide(t.Context(), decide.Decision{Target: id, Verb: workflows.UpdateSkip, Actor: "ann", Reason: "the mail does not matter",
				Args: decide.Args{Effect: "receipt-email"}})
		}
		return r.rows(`select count(*)::text from receipts where status = 'processed'`)[0] == strconv.Itoa(len(events))
	})
	at := map[string]map[string]int{}
	for i, e := range r.journal("finance") {
		if !e.First {
			continue
		}
		invoice, kind := fmt.Sprint(e.Body["invoice"]), fmt.Sprint(e.Body["kind"])
		if at[invoice] == nil {
			at[invoice] = map[string]int{}
		}
		if _, again := at[invoice][kind]; again {
			t.Errorf("%s has two entries of kind %s", invoice, kind)
		}
		at[invoice][kind] = i
	}
	if sum := r.rows(`select sum(case when kind = 'refund' then -amount else amount end)::text from finance_entries`)[0]; sum != "0" {
		t.Errorf("what finance has of payments that were all paid back sums up to %s", sum)
	}
	for invoice, booked := range at {
		payment, paid := booked["payment"]
		if refund, refunded := booked["refund"]; !paid || !refunded || refund < payment {
			t.Errorf("%s: %v, want the payment, and then the refund", invoice, booked)
		}
	}
	if want := (incidents + 1) / 2; len(at) != want {
		t.Errorf("finance has entries of %d invoices, want %d", len(at), want)
	}
	t.Logf("%d outages and kills, %d events, %d invoices", incidents, len(events), len(at))
}
