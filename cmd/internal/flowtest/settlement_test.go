package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/receipt"
)

const settledAs = `select concat_ws(' ', kind, amount, settlement->>'amount', settlement->>'fee', settlement->>'net', settlement->>'currency', nullif(settlement_unknown, ''))
	from finance_entries order by created_at`

// Stripe does not show yet how a payment has settled: its entry waits for that, and the refund for the entry, while
// access and letters go on. A worker that dies meanwhile changes nothing: each is booked once, with what Stripe says.
func TestSettlement_ShownLater_TheEntryAloneWaits(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, true, nil)
	kill := r.hire()
	seed := "settles-" + uuid.NewString()[:8]
	paid := purchase(t, seed, "invoice.paid", "starter")
	paying := rename(t, purchase(t, seed, "invoice_payment.paid", "starter"), paid.ID+"_payment")
	refund := rename(t, purchase(t, seed, "refund.updated", "starter"), paid.ID+"_refund")
	r.tell(paid, paying, refund)
	r.fault(`{"service":"stripe","mode":"unsettled","path":"charges","next":1000}`)
	run := r.receive(paid)
	r.until("the entry waits", func() bool {
		return slices.ContainsFunc(r.timers(run), func(s string) bool { return strings.Contains(s, "has settled") })
	})
	r.receive(refund)
	r.until("all else is done, and the refund waits", func() bool {
		return len(r.rows(`select key from effects where kind in ('provision-workspace', 'receipt-email') and state = 'done'`)) == 2 &&
			len(r.rows(waitsForEntry, refund.ID)) == 1
	})
	if got := r.rows(`select key from effects where kind in ('finance-export', 'refund-entry')`); len(got) > 0 || len(r.journal("finance")) > 0 {
		t.Errorf("the ledger has %v, want nothing claimed", got)
	}
	kill()
	r.hire()
	r.clearFaults()
	r.status(paid, receipt.Processed)
	r.status(refund, receipt.Processed)
	charged := r.rows(`select amount::text from finance_entries where kind = 'payment'`)[0]
	var amount int64
	if _, err := fmt.Sscan(charged, &amount); err != nil {
		t.Fatal(err)
	}
	fee := amount*29/1000 + 30
	got := r.rows(settledAs)
	if want := fmt.Sprintf("payment %d %d %d %d usd", amount, amount, fee, amount-fee); len(got) != 2 || got[0] != want || !strings.HasPrefix(got[1], "refund ") || !strings.HasSuffix(got[1], " usd") {
		t.Errorf("booked %q, want %q and its refund", got, want)
	}
	if got := r.booked(); !slices.Equal(got, []string{"payment", "refund"}) {
		t.Errorf("finance has %v", got)
	}
}

// A key that may not read settlements holds nothing back, and parks nothing.
func TestSettlement_NotPermitted_Booked(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	seed := "denied-" + uuid.NewString()[:8]
	paid := purchase(t, seed, "invoice.paid", "starter")
	r.tell(paid, rename(t, purchase(t, seed, "invoice_payment.paid", "starter"), paid.ID+"_payment"))
	r.fault(`{"service":"stripe","status":403,"path":"charges","next":1000}`)
	r.result(r.receive(paid), "")
	if got := r.rows(settledAs); len(got) != 1 || !strings.HasSuffix(got[0], " not_permitted") {
		t.Errorf("booked %q", got)
	}
}
