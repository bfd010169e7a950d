package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Two changes within one second start from the same state, so pawl cannot order them. pawl uses the state that
// Stripe's API returns. If Stripe's API cannot be queried, pawl uses the state that grants more, and the timeline
// reports it.
func TestUndecided_StripeDecides_OrTheModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		key    bool
		faults []string
		plan   string
		// fetches is the outcome of the request to Stripe, or "" if pawl sends no request.
		fetches string
	}{
		{"no key", false, nil, "pro", ""},
		{"a key", true, nil, "starter", "done"},
		{"too many requests", true, []string{`{"service":"stripe","status":429,"retry_after":1}`}, "starter", "done"},
		{"no answer", true, []string{`{"service":"stripe","mode":"drop_before_accept"}`}, "starter", "done"},
		{"not there", true, []string{`{"service":"stripe","mode":"missing"}`}, "pro", "skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, tt.key, nil)
			e := purchase(t, "undecided-"+uuid.NewString()[:8], "customer.subscription.updated", "pro")
			undecided(r, e)
			r.fault(tt.faults...)
			r.result(r.receive(e), "")
			if got := r.rows(`select target_plan from accounts`); !slices.Equal(got, []string{tt.plan}) {
				t.Errorf("the account has %v, want %s", got, tt.plan)
			}
			all := r.journal("workspaces")
			if last := all[len(all)-1]; last.Body["plan"] != tt.plan {
				t.Errorf("the workspace was left as %v, want %s", last.Body, tt.plan)
			}
			if got := r.rows(`select state from effects where kind = 'fetch-object' and key not like '%:payment'`); !slices.Equal(got, slices.DeleteFunc([]string{tt.fetches}, func(s string) bool { return s == "" })) {
				t.Errorf("asking is %v, want %q", got, tt.fetches)
			}
			if got := r.rows(`select origin from facts where origin <> 'event'`); len(got) != map[bool]int{true: 1}[tt.fetches == "done"] {
				t.Errorf("facts of other origins: %v", got)
			}
			events, err := timeline.Find(t.Context(), r.Pool, e.ID)
			if err != nil || len(events) != 1 {
				t.Fatalf("%v, %v", events, err)
			}
			shown, err := timeline.Show(t.Context(), r.Pool, events[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(shown.Timeline, func(s timeline.Entry) bool {
				return s.What == "order-uncertain" && strings.HasPrefix(s.Detail, "uncertain_order: ")
			}) {
				t.Errorf("the timeline does not report the uncertain order: %+v", shown.Timeline)
			}
		})
	}
}

// pawl ignores a response that is older than the known state, because the response would revert a change.
func TestUndecided_StaleAnswer_AskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	seed, now := "stale-"+uuid.NewString()[:8], time.Now().Truncate(time.Second)
	created := purchaseAt(t, seed, "customer.subscription.created", "enterprise", now.Add(-1e9))
	r.tell(rename(t, created, created.ID+"_created"))
	r.result(r.receive(rename(t, created, created.ID+"_created")), "")
	e := purchaseAt(t, seed, "customer.subscription.updated", "pro", now)
	other := rename(t, purchaseAt(t, seed, "customer.subscription.updated", "starter", now), e.ID+"_other")
	r.result(r.receive(other), "")
	r.tell(e) // the simulated Stripe applied the earlier change and one of the two later ones
	r.fault(`{"service":"stripe","mode":"stale"}`)
	r.result(r.receive(e), "")
	if got := r.rows(`select target_plan from accounts`); !slices.Equal(got, []string{"pro"}) {
		t.Errorf("the account has %v, want what Stripe shows at last", got)
	}
	if got := r.rows(`select state || ' ' || failures from effects where kind = 'fetch-object' and key not like '%:payment'`); !slices.Equal(got, []string{"done 1"}) {
		t.Errorf("asking is %v, want it done after one failure", got)
	}
}

// The plan is taken from all lines of the invoice, including the lines that the event omits. pawl fetches an invoice once, for any number of its events.
func TestLinesFetched_PlanOfTheLastLine(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, true, nil)
	seed := "lines-" + uuid.NewString()[:8]
	paid := purchaseOf(t, seed, "invoice.paid", "enterprise", bought, 123)
	succeeded := rename(t, purchaseOf(t, seed, "invoice.payment_succeeded", "enterprise", bought, 123), paid.ID+"_succeeded")
	r.tell(paid)
	r.result(r.receive(paid), "")
	r.result(r.receive(succeeded), "")
	for sql, want := range map[string]string{
		`select target_plan from accounts`:                                                                 "enterprise",
		`select ((state ->> 'Partial') is null)::text from invoices`:                                       "true",
		`select key || ' ' || state from effects where kind = 'fetch-object' and key not like '%:payment'`: fmt.Sprintf("fetch-object:stripe:live:%s done", r.rows(`select id from invoices`)[0]),
		`select count(*)::text from facts where origin = 'fetched'`:                                        "1",
		`select count(*)::text from receipts where status = 'processed'`:                                   "2",
	} {
		if got := r.rows(sql); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", sql, got, want)
		}
	}
	if got := r.status(paid, receipt.Processed); got != receipt.Processed {
		t.Errorf("receipt is %s", got)
	}
}

// Since Stripe's API version basil, a refund names neither a customer nor an invoice. pawl fetches the invoice of the
// refunded payment.
func TestRefund_InvoiceAskedFor_Booked(t *testing.T) {
	t.Parallel()
	for _, key := range []bool{true, false} {
		t.Run(fmt.Sprint("key ", key), func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, key, nil)
			seed := "refund-" + uuid.NewString()[:8]
			paid := purchase(t, seed, "invoice.paid", "starter")
			// never delivered
			paying := rename(t, purchase(t, seed, "invoice_payment.paid", "starter"), paid.ID+"_payment")
			refund := rename(t, purchase(t, seed, "refund.updated", "starter"), paid.ID+"_refund")
			r.tell(paid, paying, refund)
			r.result(r.receive(paid), "")
			r.result(r.receive(refund), "")
			want := 1 // the payment
			if key {
				want = 2
			}
			if got := r.journal("finance"); len(got) != want {
				t.Errorf("booked %v, want %d entries", got, want)
			}
		})
	}
}

// Since 2025-03-31.basil a charge does not name its invoice. If no event connects them, pawl fetches the connection
// from Stripe, once per payment.
func TestRefund_InvoiceOfTheChargeAsked_BookedForIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		tied bool
	}{
		{"Stripe knows", true},
		// without the connection, the payment and its refund belong to the account of the customer's subscription
		{"Stripe does not", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, true, func(c *config.Config) { c.Policy.SubscriptionWait = time.Second })
			e := purchase(t, "asked-"+uuid.NewString()[:8], "refund.updated", "starter")
			all(sent("invoice.paid", -1e9), sent("charge.succeeded", -1e9))(r, e)
			if tt.tied {
				r.tell(purchaseAt(t, seedOf(e), "invoice_payment.paid", "starter", bought))
			}
			r.result(r.receive(e), "")
			r.result(r.receive(rename(t, e, e.ID+"_again")), "")
			if got := r.rows(`select state from effects where kind = 'fetch-object' and key not like '%:payment'`); !slices.Equal(got, []string{"done"}) {
				t.Errorf("asking is %v, want it done once", got)
			}
			account := r.rows(`select account from invoices`)[0]
			if !tt.tied {
				r.until("the invoice, the payment and its refund are booked", func() bool {
					return len(r.rows(`select kind from finance_entries where account = $1`, account)) == 3
				})
			}
			if got := r.rows(`select concat_ws(' ', kind, account, (invoice <> '')::text) from finance_entries where kind = 'refund'`); !slices.Equal(got, []string{fmt.Sprintf("refund %s %t", account, tt.tied)}) {
				t.Errorf("booked %v, want it under %s", got, account)
			}
			r.footprint() // the counts are final only after the outbox is empty
			if got := r.rows(`select type from outbox where type like 'billing.refund.%'`); len(got) != 1 {
				t.Errorf("published %v, want it once", got)
			}
		})
	}
}
