package activities_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
)

// asking is a finance sink with a source that can fetch settlements. It stores the log of its effects.
type asking struct {
	*bundle
	*activities.Finance
	sink *activitiestest.Sink
	log  *bytes.Buffer

	mu     sync.Mutex
	asked  []string
	answer func(n int) (status int, body string)
}

func newAsking(t *testing.T, answer func(n int) (status int, body string)) *asking {
	a := &asking{bundle: setup(t), sink: activitiestest.NewSink(t), log: &bytes.Buffer{}, answer: answer}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, r.URL.Path)
		status, body := a.answer(len(a.asked))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(api.Close)
	client, err := stripe.NewClient("rk_live_1", api.URL, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	a.effects.Log = slog.New(slog.NewTextHandler(a.log, nil))
	a.Finance = a.finance(a.sink.URL)
	a.Settle, a.Objects = 10*time.Minute, &activities.Objects{Effects: a.effects, Receipts: ofStripe{}, Now: time.Now,
		APIs: map[string]*stripe.Client{"stripe": client}}
	return a
}

// ofStripe assigns every receipt to the same source.
type ofStripe struct{ activities.Receipts }

func (ofStripe) Get(context.Context, string) (receipt.Receipt, error) {
	return receipt.Receipt{Source: "stripe"}, nil
}

// paidBy links payments to an invoice.
func (a *asking) paidBy(invoice string, payments ...string) {
	a.Helper()
	for _, id := range payments {
		if _, err := a.pool.Exec(a.Context(), `insert into objects (mode, kind, id, invoice, state) values ('live', 'payment', $1, $2, '{}')`, id, invoice); err != nil {
			a.Fatal(err)
		}
	}
}

func charges(amount int64, on string) string {
	return fmt.Sprintf(`{"data": [{"id": "ch_1", "status": "succeeded", "amount_captured": %d, "currency": "usd", "balance_transaction": %s}]}`, amount, on)
}

// paidParts returns the list of an invoice's payments.
func paidParts(payments ...string) string {
	var parts []string
	for _, id := range payments {
		parts = append(parts, fmt.Sprintf(`{"object": "invoice_payment", "payment": {"type": "payment_intent", "payment_intent": %q}}`, id))
	}
	return `{"data": [` + strings.Join(parts, ",") + `]}`
}

const inEuros = `{"id": "txn_1", "amount": 4410, "fee": 158, "net": 4252, "currency": "eur"}`

const bookedAs = `select concat_ws(' ', kind, settlement->>'amount', settlement->>'fee', settlement->>'net', settlement->>'currency', nullif(settlement_unknown, '')) from finance_entries`

// An entry is booked once, with Stripe's settlement or with the reason why the settlement is unknown, and its run
// never parks.
func TestPostEntry_Settlement(t *testing.T) {
	for name, tt := range map[string]struct {
		payments []string
		how      string
		answer   func(n int) (int, string)
		waits    int
		want     string
		asks     int
	}{
		"known":          {[]string{"pi_1"}, "charge", func(int) (int, string) { return 200, charges(4900, inEuros) }, 0, "payment 4410 158 4252 eur", 1},
		"how is unknown": {[]string{"pi_1"}, "unknown", func(int) (int, string) { return 200, charges(4900, inEuros) }, 0, "payment 4410 158 4252 eur", 1},
		"out of band":    {[]string{"pi_1"}, "out_of_band", func(int) (int, string) { return 200, charges(4900, inEuros) }, 0, "payment", 0},
		"no payment":     {nil, "charge", func(int) (int, string) { return 200, charges(4900, inEuros) }, 0, "payment no_payment", 1},
		"another sum": {[]string{"pi_1"}, "charge", func(n int) (int, string) {
			return 200, map[bool]string{true: paidParts("pi_1"), false: charges(4800, inEuros)}[n == 2]
		},
			0, "payment not_certain", 2},
		"a part is not known yet": {[]string{"pi_1"}, "charge", func(n int) (int, string) {
			return 200, map[bool]string{true: paidParts("pi_2", "pi_1"), false: charges(2450, inEuros)}[n == 2]
		}, 0, "payment 8820 316 8504 eur", 3},
		"the one of two": {[]string{"pi_1", "pi_2"}, "charge", func(n int) (int, string) { return 200, charges(int64(n*4900), inEuros) }, 0, "payment 4410 158 4252 eur", 2},
		"both together":  {[]string{"pi_1", "pi_2"}, "charge", func(int) (int, string) { return 200, charges(2450, inEuros) }, 0, "payment 8820 316 8504 eur", 2},
		"not permitted":  {[]string{"pi_1"}, "charge", func(int) (int, string) { return 403, `{"error": {}}` }, 0, "payment not_permitted", 1},
		"null, then told": {[]string{"pi_1"}, "charge", func(n int) (int, string) {
			return 200, charges(4900, map[bool]string{true: "null", false: inEuros}[n < 3])
		}, 2, "payment 4410 158 4252 eur", 3},
		"away, then told": {[]string{"pi_1"}, "charge", func(n int) (int, string) { return map[bool]int{true: 503, false: 200}[n < 2], charges(4900, inEuros) }, 1, "payment 4410 158 4252 eur", 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsking(t, tt.answer)
			a.paidBy("in_1", tt.payments...)
			in := payment("in_1")
			in.For.Method = tt.how
			for range tt.waits {
				if got := must(a.bundle, effect.Waits, a.PostEntry, in); got.Wait < 5*time.Second || got.Wait > time.Minute || got.First != "" {
					t.Errorf("waits %+v, want a while, and for no other entry", got)
				}
				in.Effect.WaitingSince = time.Now().Add(-time.Minute)
			}
			must(a.bundle, effect.Done, a.PostEntry, in)
			must(a.bundle, effect.AlreadyDone, a.PostEntry, in)
			if got := a.lines(bookedAs); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("booked %q, want %q", got, tt.want)
			}
			if len(a.asked) != tt.asks || len(a.sink.Requests()) != 1 {
				t.Errorf("asked %v and booked %d times, want %d times and once", a.asked, len(a.sink.Requests()), tt.asks)
			}
		})
	}
}

// If Stripe never returns a settlement, the entry is booked after the time limit.
func TestPostEntry_SettlementNeverTold_BookedWithinItsTime(t *testing.T) {
	a := newAsking(t, func(int) (int, string) { return 200, charges(4900, "null") })
	a.paidBy("in_1", "pi_1")
	in := payment("in_1")
	in.Effect.WaitingSince = time.Now().Add(10*time.Second - a.Settle)
	if got := must(a.bundle, effect.Waits, a.PostEntry, in); got.Wait > 10*time.Second {
		t.Errorf("it waits %s, beyond its time", got.Wait)
	}
	in.Effect.WaitingSince = time.Now().Add(-a.Settle)
	must(a.bundle, effect.Done, a.PostEntry, in)
	if got := a.lines(bookedAs); !slices.Equal(got, []string{"payment not_reported"}) {
		t.Errorf("booked %q", got)
	}
}

// If an API key lacks the permission for settlements, pawl reports this once, and does not try again for every entry.
func TestPostEntry_SettlementNotPermitted_ToldOnce(t *testing.T) {
	a := newAsking(t, func(int) (int, string) { return 403, `{"error": {}}` })
	for _, invoice := range []string{"in_1", "in_2", "in_3"} {
		a.paidBy(invoice, "pi_"+invoice)
		must(a.bundle, effect.Done, a.PostEntry, payment(invoice))
	}
	// the log message and its error attribute
	if told := strings.Count(a.log.String(), "may not read"); told != 2 || len(a.asked) != 1 {
		t.Errorf("asked %v, logged:\n%s", a.asked, a.log)
	}
}

// All attempts send the bytes of the first attempt, so a retry does not fetch the settlement again.
func TestPostEntry_SinkFails_NotAskedAgain(t *testing.T) {
	a := newAsking(t, func(n int) (int, string) {
		return 200, charges(4900, map[bool]string{true: inEuros, false: "null"}[n == 1])
	})
	a.paidBy("in_1", "pi_1")
	a.sink.Next(activitiestest.Cue{Status: http.StatusServiceUnavailable})
	in := payment("in_1")
	if _, err := do(a.bundle, a.PostEntry, in); err == nil {
		t.Fatal("want a try that failed")
	}
	must(a.bundle, effect.Done, a.PostEntry, in)
	if got := a.lines(bookedAs); !slices.Equal(got, []string{"payment 4410 158 4252 eur"}) || len(a.asked) != 1 {
		t.Errorf("booked %q, asked %v", got, a.asked)
	}
}
