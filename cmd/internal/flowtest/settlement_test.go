package flowtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
)

// paidBack returns a purchase and its refund in chronological order: the payment, the invoice, the refund.
func paidBack(t *testing.T, currency string) (all []forge.Event) {
	t.Helper()
	seed := "settled-" + uuid.NewString()[:8]
	for _, eventType := range []string{"charge.succeeded", "invoice_payment.paid", "invoice.paid", "refund.updated"} {
		e := purchase(t, seed, eventType, "starter")
		e.Body = bytes.ReplaceAll(e.Body, []byte(`"currency":"usd"`), []byte(`"currency":"`+currency+`"`))
		all = append(all, rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_")))
	}
	return all
}

const waitsToSettle = "finance-export waits: Stripe has not reported the settlement of the money yet"

// settlements returns the settlements of the entries that the finance sink accepted, in order.
func (r *rig) settlements() (all []string) {
	for _, e := range r.journal("finance") {
		if !e.First {
			continue
		}
		said := fmt.Sprintf("%v %v%v:", e.Body["kind"], e.Body["amount"], e.Body["currency"])
		if s, ok := e.Body["settlement"].(map[string]any); ok {
			said += fmt.Sprintf(" %v - %v = %v%v", s["amount"], s["fee"], s["net"], s["currency"])
		}
		all = append(all, strings.TrimSuffix(fmt.Sprint(said, " ", e.Body["settlement_unknown"]), " <nil>"))
	}
	return all
}

// An entry contains the settlement of its money if a key can fetch it. If Stripe does not return it, the entry is
// booked without. Only the entry waits for that: the workspace and the e-mail do not, and no run parks.
func TestSettlement_AskedBeforeTheEntry(t *testing.T) {
	t.Parallel()
	known := []string{"payment 4900usd: 4900 - 172 = 4728usd", "refund 4900usd: -4900 - 0 = -4900usd"}
	unknown := func(why string) []string { return []string{"payment 4900usd: " + why, "refund 4900usd: " + why} }
	const charges, refunds = `{"service":"stripe","path":"charges","next":%d,%s}`, `{"service":"stripe","path":"refunds","next":%d,%s}`
	for _, tt := range []struct {
		name, currency string
		key            bool
		faults         []string
		want           []string
		// waits is set if the entry of the payment waits.
		waits bool
	}{
		{"no key", "usd", false, nil, []string{"payment 4900usd:", "refund 4900usd:"}, false},
		{"known at once", "usd", true, nil, known, false},
		{"another currency", "eur", true, nil, []string{"payment 4900eur: 6125 - 207 = 5918usd", "refund 4900eur: -6125 - 0 = -6125usd"}, false},
		{"known later", "usd", true, []string{fmt.Sprintf(charges, 1, `"mode":"unsettled"`), fmt.Sprintf(refunds, 1, `"mode":"unsettled"`)}, known, true},
		{"no answer at first", "usd", true, []string{fmt.Sprintf(charges, 1, `"status":503`), fmt.Sprintf(refunds, 1, `"mode":"drop_before_accept"`)}, known, true},
		{"never known", "usd", true, []string{fmt.Sprintf(charges, 1000, `"mode":"unsettled"`), fmt.Sprintf(refunds, 1000, `"mode":"unsettled"`)}, unknown("not_reported"), true},
		{"not permitted", "usd", true, []string{fmt.Sprintf(charges, 1, `"status":403`)}, unknown("not_permitted"), false},
		{"not there", "usd", true, []string{fmt.Sprintf(charges, 1, `"mode":"missing"`), fmt.Sprintf(refunds, 1, `"mode":"missing"`)}, unknown("no_payment"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, tt.key, func(c *config.Config) { c.Policy.SubscriptionWait = 12 * time.Second })
			events := paidBack(t, tt.currency)
			r.tell(events...)
			r.result(r.receive(events[0]), "")
			r.result(r.receive(events[1]), "")
			r.fault(tt.faults...)
			paid := r.receive(events[2])
			if tt.waits {
				r.status(events[2], receipt.Processing, receipt.Retrying, receipt.Processed) // its run exists
				r.until("the entry waits", func() bool { return slices.Contains(r.timers(paid), waitsToSettle) })
			}
			r.receive(events[3])
			r.status(events[2], receipt.Processed)
			r.status(events[3], receipt.Processed)
			if late := r.rows(`select o.kind from effects o join effects e using (receipt_id)
				where e.kind = 'finance-export' and o.kind in ('provision-workspace', 'receipt-email') and o.tried_since > e.done_at`); len(late) > 0 {
				t.Errorf("%q waited for the entry", late)
			}
			if got := r.settlements(); !slices.Equal(got, tt.want) {
				t.Errorf("finance has\n%q, want\n%q", got, tt.want)
			}
			rows := r.rows(`select concat_ws(' ', kind, amount || currency || ':',
				(settlement->>'amount') || ' - ' || (settlement->>'fee') || ' = ' || (settlement->>'net') || (settlement->>'currency'), nullif(settlement_unknown, ''))
				from finance_entries order by created_at`)
			if !slices.Equal(rows, tt.want) {
				t.Errorf("the rows are\n%q, want\n%q", rows, tt.want)
			}
		})
	}
}

// A worker is killed while an entry waits for its settlement, and after the finance sink accepted the entry but before
// pawl recorded it. There is one entry, with Stripe's settlement.
func TestSettlement_Killed_OneEntry(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, true, nil)
	kill := r.hire()
	events := paidBack(t, "usd")
	r.tell(events...)
	for _, e := range events[:2] {
		r.receive(e)
		r.status(e, receipt.Processed)
	}
	r.fault(`{"service":"stripe","path":"charges","mode":"unsettled","next":1000}`)
	paid := r.receive(events[2])
	r.status(events[2], receipt.Processing)
	r.until("the entry waits", func() bool {
		return len(r.rows(`select key from effects where kind = 'receipt-email' and state = 'done'`)) == 1 && slices.Contains(r.timers(paid), waitsToSettle)
	})
	kill()
	r.clearFaults()
	r.fault(`{"service":"finance","mode":"hang_after_accept"}`)
	kill = r.hire()
	r.until("finance has it", func() bool { return len(r.booked()) == 1 })
	kill()
	r.clearFaults()
	r.hire()
	r.receive(events[3])
	r.status(events[2], receipt.Processed)
	r.status(events[3], receipt.Processed)
	want := []string{"payment 4900usd: 4900 - 172 = 4728usd", "refund 4900usd: -4900 - 0 = -4900usd"}
	if got := r.settlements(); !slices.Equal(got, want) {
		t.Errorf("finance has %q, want %q", got, want)
	}
}
