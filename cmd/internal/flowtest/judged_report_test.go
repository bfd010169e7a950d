package flowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
)

// reported returns the events of a fault report in testdata/reports, in the shape of Stripe's newest API version.
func reported(t *testing.T, name string) (story []happening) {
	t.Helper()
	content, err := os.ReadFile("testdata/reports/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Events []struct {
			Type    string
			Created int64
			Data    struct {
				Object   json.RawMessage
				Previous map[string]any `json:"previous_attributes"`
			}
		}
	}
	if err := json.Unmarshal(content, &report); err != nil {
		t.Fatal(err)
	}
	begun := report.Events[0].Created
	for _, e := range report.Events {
		newest, err := json.Marshal(sandbox.InBasil(string(e.Data.Object)))
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(newest, &object); err != nil {
			t.Fatal(err)
		}
		h := tell(e.Type, time.Duration(e.Created-begun)*time.Second, relativeTo(begun, object).(payload))
		if e.Data.Previous != nil {
			h.previous = relativeTo(begun, e.Data.Previous).(payload)
		}
		story = append(story, h)
	}
	return story
}

// relativeTo makes the times in a JSON value relative to the start of the scenario.
func relativeTo(begun int64, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := payload{}
		for key, inner := range v {
			out[key] = relativeTo(begun, inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = relativeTo(begun, inner)
		}
		return out
	case float64:
		if n := int64(v); n > 1.7e9 {
			return at0(time.Duration(n-begun) * time.Second)
		}
		return int(v)
	}
	return value
}

// reportedPrices maps the prices in the fault reports to plans.
func reportedPrices(c *config.Config) {
	maps.Copy(c.Plans.Prices, map[string]config.Price{
		"price_addon": {Adds: []string{"audit-log"}}, "price_once": {Plan: "pro", For: 365 * aDay},
	})
}

// pawl processes the event sequences of public fault reports, and ends in the state that each report demands, in
// every order and version.
func TestJudged_Reports(t *testing.T) {
	t.Parallel()
	items, session := reported(t, "more-items-than-the-event-has"), reported(t, "session-captured-later")
	bought := []string{"cs_1: acme complete paid 30000", "booked payment cs_1 30000 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"}
	paidBack := append(bought[:4:4], "pi_1: acme 30000 refunded 30000", "ch_1:1: acme succeeded 30000", "booked refund ch_1:1 30000 usd",
		"told billing.refund.succeeded ch_1:1")
	stage{tune: reportedPrices, then: settlePasses}.judgeBoth(t, []judged{
		{
			name: "a part of an open invoice is paid, and the rest on the fortieth day", ago: 41 * aDay, storm: true, basil: true, inParts: true,
			events: reported(t, "part-of-an-open-invoice-is-not-booked"),
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 10000", "booked payment in_1 3000 usd",
				"booked payment in_1 7000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"},
			sums: []string{"acme usd 10000 tax 0"},
		},
		{
			name: "40.00 of an open invoice are credited, and the attempt to collect the rest fails", ago: 34 * aDay, storm: true,
			events:  reported(t, "letter-asks-too-much"),
			want:    []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme open 0", "cn_1: acme issued 0", "told billing.payment.failed in_1 2"},
			letters: []string{"action-required in_1:2"}, says: "Your payment of 60.00 USD",
		},
		{
			name: "a session is completed with a card that is captured later, and refunded", ago: 4 * aDay, storm: true, old: true,
			keyless: true, // no event contains the refund object, so the simulated balance of Stripe lacks it
			events:  session,
			want:    paidBack, sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "the same, and the refund is the first event that reports the capture", ago: 4 * aDay, inOrder: true, old: true, keyless: true,
			events: []happening{session[0], session[4], session[1], session[2], session[3]}, want: paidBack, sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "the same, and not refunded", ago: 4 * aDay, storm: true,
			events: session[:4], want: append(bought, "cs_1 grants pro 1 until 365d+1m0s", "acme: active pro 1"),
			sums: []string{"acme usd 30000 tax 0"},
		},
		{
			name: "a subscription of more items than an event has, without a key: the known part", storm: true, keyless: true,
			events: []happening{items[0], tell("customer.subscription.updated", aDay, items[0].object, was("description", "x"))}, want: []string{"sub_1: acme active pro 3", "sub_1 grants pro 3 audit-log", "acme: active pro 3 +audit-log", "task reconcile sub_1 open"},
		},
		{
			name: "its suspension and its end need no items", storm: true,
			events: items, want: []string{"sub_1: acme canceled pro 3", "acme: suspended", "told billing.subscription.ended sub_1"},
		},
	})
}

// A payment that is authorized but not captured is not booked as cash, even after policy.subscription_wait.
func TestJudged_Reports_Authorised(t *testing.T) {
	t.Parallel()
	held := reported(t, "authorised-is-booked")
	charge := func(kind string, at time.Duration, captured, refunded int) happening {
		object := maps.Clone(held[1].object)
		maps.Copy(object, payload{"captured": captured > 0, "amount_captured": captured, "amount_refunded": refunded, "refunded": refunded == 10000})
		return tell(kind, at, object)
	}
	intent := func(kind string, at time.Duration, status string, received int) happening {
		object := maps.Clone(held[2].object)
		maps.Copy(object, payload{"status": status, "amount_received": received, "amount_capturable": 0})
		return tell(kind, at, object)
	}
	var cases []judged
	for _, c := range []struct {
		name   string
		events []happening
		booked int
	}{
		{"a payment is authorised", nil, 0},
		{"60.00 of 100.00 are captured two days later", []happening{charge("charge.captured", 2*aDay, 6000, 4000), intent("payment_intent.succeeded", 2*aDay, "succeeded", 6000)}, 6000},
		{"the authorisation is released", []happening{charge("charge.refunded", 2*aDay, 0, 10000), intent("payment_intent.canceled", 2*aDay, "canceled", 0)}, 0},
	} {
		known := judged{name: c.name + ", and its charge names no invoice", events: append(held[:len(held):len(held)], c.events...), old: true, storm: true, want: []string{}, sums: []string{}}
		if c.booked > 0 {
			known.want, known.sums = append(known.want, fmt.Sprintf("booked payment pi_1 %d usd", c.booked)), []string{fmt.Sprintf("acme usd %d tax 0", c.booked)}
		}
		unknown := judged{name: c.name + ", and nothing reports what it paid for", events: known.events, basil: true, want: []string{}, sums: []string{}}
		unknown.keyless = c.booked > 0 // with an API key, the sums differ from Stripe's balance by the captured amount
		cases = append(cases, known, unknown)
	}
	stage{then: settlePasses}.judgeBoth(t, cases)
}

// A payment with several captures has an entry for each known capture, and the entries add up to the captured amount
// in every order of delivery. The scenarios use no API key, because the simulated API of Stripe has one balance
// transaction per charge.
func TestJudged_Reports_SeveralCaptures(t *testing.T) {
	t.Parallel()
	capture := func(at time.Duration, intent string, captured int, edits ...edit) happening {
		return tell("charge.captured", at, chargeOf(at, intent, 10000, append([]edit{set("amount_captured", captured), set("captured", true)}, edits...)...).object)
	}
	alone := []happening{
		customer("updated", 0, "acme"), capture(1*aDay, "pi_1", 4000), capture(2*aDay, "pi_1", 7000),
		tell("payment_intent.succeeded", 3*aDay, payload{"id": "pi_1", "object": "payment_intent", "amount": 10000, "amount_received": 9000, "currency": "usd", "customer": "cus_1",
			"latest_charge": "ch_pi_1", "status": "succeeded", "metadata": payload{}}),
	}
	stage{then: settlePasses}.judge(t, []judged{
		{
			name: "three captures of a payment", old: true, storm: true, events: alone, sums: []string{"acme usd 9000 tax 0"},
		},
		{
			name: "three captures of a session", storm: true, ago: 4 * aDay, sums: []string{"acme usd 1500 tax 0"},
			events: []happening{
				sells("completed", 0, "unpaid", "acme"), customer("updated", 0, "acme"),
				capture(aDay, "pi_1", 500, set("amount", 1500)), capture(2*aDay, "pi_1", 1000, set("amount", 1500)),
				tell("payment_intent.succeeded", 3*aDay, payload{"id": "pi_1", "object": "payment_intent", "amount": 1500, "amount_received": 1500, "currency": "usd", "customer": "cus_1",
					"latest_charge": "ch_pi_1", "status": "succeeded", "metadata": payload{}}),
			},
		},
	})
}
