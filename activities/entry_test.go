package activities_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

func (b *bundle) finance(url string) *activities.Finance {
	return &activities.Finance{Effects: b.effects, Facts: billing.New(b.pool), Sinks: map[string]activities.Sink{"live": sink(url)}}
}

// payment returns the entry of a paid invoice.
func payment(invoice string) activities.EffectInput[activities.Entry] {
	start := time.Date(2026, 3, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600))
	return activities.EffectInput[activities.Entry]{Effect: call("finance-entry", invoice), For: activities.Entry{
		Kind: activities.PaymentEntry, Mode: "live", Account: "acme", Object: invoice, Invoice: invoice, Subscription: "sub_1", Plan: "pro",
		Amount: 4900, Tax: 783, Currency: "usd", Method: "charge", PeriodStart: start, PeriodEnd: start.AddDate(0, 1, 0), OccurredAt: start.Add(time.Minute),
	}}
}

func TestPostEntry_WhatIsSent(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	in := payment("in_1")
	must(b, effect.Done, b.finance(s.URL).PostEntry, in)
	want := activitiestest.Request{
		Method: "POST", Path: "/entries", Key: in.Effect.Key, Authorization: "Bearer token", ContentType: "application/json", Applied: true,
		Pawl: map[string]string{"Pawl-Mode": "live"}, CloudEvent: map[string]string{},
		Body: `{"kind":"payment","mode":"live","account":"acme","object":"in_1","invoice":"in_1","subscription":"sub_1","plan":"pro",` +
			`"amount":4900,"tax":783,"currency":"usd","cash":4900,"method":"charge",` +
			`"period_start":"2026-03-01T00:00:00Z","period_end":"2026-04-01T00:00:00Z","occurred_at":"2026-03-01T00:01:00Z"}`,
	}
	if got := s.Requests(); !reflect.DeepEqual(got, []activitiestest.Request{want}) {
		t.Errorf("requests\n got %+v\nwant %+v", got, want)
	}
	undo := payment("in_1")
	undo.Effect, undo.For.Kind = call("finance-reversal", "in_1"), activities.ReversalEntry
	undo.Effect.Compensates = in.Effect.Key
	undo.For.PeriodStart, undo.For.PeriodEnd = time.Time{}, time.Time{}
	must(b, effect.Done, b.finance(s.URL).PostEntry, undo)
	if got := s.Requests()[1].Body; !strings.Contains(got, `"kind":"reversal"`) || !strings.Contains(got, `"amount":4900`) ||
		!strings.Contains(got, `"reverses":"`+in.Effect.Key+`"`) || strings.Contains(got, "period") {
		t.Errorf("reversal %s", got)
	}
	wantRows := []string{"payment 4900 usd ref:" + in.Effect.Key, "reversal 4900 usd ref:" + undo.Effect.Key}
	if got := b.lines(`select concat_ws(' ', kind, amount, currency, reference) from finance_entries order by kind`); !slices.Equal(got, wantRows) {
		t.Errorf("entries\n got %q\nwant %q", got, wantRows)
	}
}

// A reversal has the account, the tax and the settlement of the booked entry, even if other values are known by now.
// If nothing was booked, the reversal does nothing.
func TestPostEntry_Reversal_TakesBackWhatWasBooked(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	refund := payment("re_1")
	refund.Effect = call("refund-entry", "re_1")
	// the invoice of this refund was not known
	refund.For.Kind, refund.For.Amount, refund.For.Tax = activities.RefundEntry, 5831, 0
	refund.For.Settlement = fold.Settled(-6400, 10, "eur")
	must(b, effect.Done, b.finance(s.URL).PostEntry, refund)
	reversal := func(object string, amount int64) activities.EffectInput[activities.Entry] {
		in := refund
		in.Effect = call("refund-reversal-entry", object)
		in.For.Kind, in.For.Amount, in.For.Tax, in.For.Account = activities.RefundReversalEntry, amount, 931, "umbrella"
		in.For.Reverses = refund.Effect.Key
		return in
	}
	must(b, effect.Done, b.finance(s.URL).PostEntry, reversal("re_1", 5831))
	// a part of the refunded amount that a charge had reported
	must(b, effect.Done, b.finance(s.URL).PostEntry, reversal("re_2", 5000))
	leftOut, skipped := refund, reversal("re_3", 5831)
	leftOut.Effect = call("refund-entry", "re_3")
	must(b, effect.Skipped, (&activities.Finance{Effects: b.effects}).PostEntry, leftOut)
	skipped.For.Reverses = leftOut.Effect.Key
	must(b, effect.Skipped, b.finance(s.URL).PostEntry, skipped)
	want := []string{
		"refund acme 5831 tax 0 usd -6400 10 -6410 eur",
		"refund_reversal acme 5000 tax 0 usd",
		"refund_reversal acme 5831 tax 0 usd 6400 -10 6410 eur",
	}
	if got := b.lines(`select concat_ws(' ', kind, account, amount, 'tax', tax, currency, settlement->>'amount', settlement->>'fee', settlement->>'net', settlement->>'currency')
		from finance_entries order by kind, amount`); !slices.Equal(got, want) {
		t.Errorf("entries\n got %q\nwant %q", got, want)
	}
	if got := s.Requests()[1].Body; !strings.Contains(got, `"amount":5831,"tax":0`) || !strings.Contains(got, `"settlement":{"amount":6400,"fee":-10,"net":6410,"currency":"eur"}`) {
		t.Errorf("sent %s", got)
	}
}
