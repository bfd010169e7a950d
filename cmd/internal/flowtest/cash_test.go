package flowtest

import (
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

// cashOf returns the differences between the booked sums of an account and Stripe's balance.
func (r *rig) cashOf(account string) (lines []string) {
	for _, d := range r.compare(account).Cash {
		for _, o := range d.Objects {
			kind, _, _ := strings.Cut(o.Object, "_")
			lines = append(lines, fmt.Sprintf("%s booked %d moved %d: %s %d %d", d.Currency, d.Booked, d.Moved, kind, o.Booked, o.Moved))
		}
	}
	return lines
}

// Reconcile compares the sums of the entries with Stripe's balance. It reports a missing entry and a duplicate entry
// with the object, in the customer's currency. It reports no difference if the sums are equal, and it never books an
// entry.
func TestReconcile_Cash_MissingAndDoubledEntries(t *testing.T) {
	t.Parallel()
	for _, currency := range []string{"usd", "eur"} { // Stripe's balance is in dollars
		t.Run(currency, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, true, func(c *config.Config) { c.Policy.SubscriptionWait = time.Second })
			seed, at := "cash-"+uuid.NewString()[:8], time.Now().Add(-100*time.Hour)
			for n, eventType := range []string{"customer.subscription.created", "charge.succeeded", "invoice_payment.paid", "invoice.paid", "refund.updated"} {
				e := purchaseAt(t, seed, eventType, "starter", at.Add(time.Duration(n)*time.Minute))
				e.Body = []byte(strings.ReplaceAll(string(e.Body), `"currency":"usd"`, `"currency":"`+currency+`"`))
				e = rename(t, e, fmt.Sprint("evt_", seed, "_", n))
				r.tell(e)
				if eventType == "refund.updated" { // an event that shows the charge as refunded
					charge := purchaseAt(t, seed, "charge.refunded", "starter", at.Add(time.Hour))
					charge.Body = []byte(strings.ReplaceAll(string(charge.Body), `"currency":"usd"`, `"currency":"`+currency+`"`))
					r.tell(rename(t, charge, "evt_"+seed+"_refunded"))
				}
				r.receive(e)
				r.status(forge.Event{ID: e.ID}, receipt.Processed)
			}
			account := "acct-" + seed
			want := func(when string, want ...string) {
				t.Helper()
				before := len(r.booked())
				if got := r.cashOf(account); !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", when, got, want)
				}
				if after := len(r.booked()); after != before {
					t.Errorf("%s: %d entries were booked", when, after-before)
				}
			}
			want("equal books")
			r.rows(`update finance_entries set object = 'gone' where kind = 'payment' returning object`)
			want("a missing entry", currency+" booked -4900 moved 0: in 0 4900")
			r.rows(`update finance_entries set object = invoice where kind = 'payment' returning object`)
			r.rows(`insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, reference)
				select effect_key || ':again', mode, account, object, invoice, kind, amount, currency, cash, reference from finance_entries where kind = 'refund' returning object`)
			want("a doubled entry", currency+" booked -4900 moved 0: re -9800 -4900")
		})
	}
}

// settledOtherwiseSQL lists the entries whose settlement has another amount. Stripe's balance is in dollars.
const settledOtherwiseSQL = `select concat_ws(' ', kind, object, cash, 'settled', settlement ->> 'amount', settlement_unknown) from finance_entries
 where settlement_unknown = 'not_certain' or currency = 'usd' and kind <> 'reversal' and (settlement ->> 'amount')::bigint <> cash`

// sameCash checks two things for each scenario with a charge: the entries add up to the balance of the simulated
// Stripe, and each entry has its own settlement.
func (r *rig) sameCash(all []*telling) {
	r.Helper()
	otherwise := r.sight([]string{settledOtherwiseSQL})
	for n, x := range all {
		for _, entry := range otherwise[n] {
			r.Errorf("%s\n%s: %s", x.name, x.told(), entry)
		}
		if !slices.ContainsFunc(x.events, func(h happening) bool { return h.kind == "charge.succeeded" }) {
			continue
		}
		found, err := r.reconciler().Compare(r.Context(), x.own("acme"), "live")
		if err != nil {
			r.Fatal(err)
		}
		for _, d := range found.Cash {
			r.Errorf("%s\n%s: %s %s", x.name, x.told(), d.Account, d)
		}
		if why, found := found.LeftOut["sums of "+x.own("cus_1")]; found {
			r.Errorf("%s\n%s: the sums are not compared: %s", x.name, x.told(), why)
		}
	}
}
