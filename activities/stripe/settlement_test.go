package stripe

import (
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// A payment is fetched with one request; the kind of payment determines the request. The result contains the amounts
// of its successful charges, with the balance transaction if it exists.
func TestCharged_OneRequest_WhatSucceeded(t *testing.T) {
	t.Parallel()
	const settled = `{"id": "txn_1", "object": "balance_transaction", "amount": 1250, "fee": 66, "net": 1184, "currency": "usd", "exchange_rate": 1.25}`
	for id, tt := range map[string]struct {
		uri, answer string
		want        []Moved
	}{
		"pi_1": {"/v1/charges?expand[]=data.balance_transaction&payment_intent=pi_1",
			`{"object": "list", "data": [
				{"id": "ch_2", "status": "succeeded", "amount": 1200, "amount_captured": 1000, "currency": "eur", "balance_transaction": ` + settled + `},
				{"id": "ch_1", "status": "failed", "amount": 1200, "amount_captured": 0, "currency": "eur", "balance_transaction": null}]}`,
			[]Moved{{1000, "eur", fold.Settled(1250, 66, "usd")}}},
		"ch_9": {"/v1/charges/ch_9?expand[]=balance_transaction",
			`{"id": "ch_9", "status": "succeeded", "amount": 700, "amount_captured": 700, "currency": "usd", "balance_transaction": null}`,
			[]Moved{{700, "usd", nil}}},
		"ch_10": {"/v1/charges/ch_10?expand[]=balance_transaction",
			`{"id": "ch_10", "status": "succeeded", "amount": 700, "amount_captured": 700, "currency": "usd", "balance_transaction": "txn_1"}`,
			[]Moved{{700, "usd", nil}}}, // not expanded, so the transaction contains no amounts
		"re_1": {"/v1/refunds/re_1?expand[]=balance_transaction",
			`{"id": "re_1", "status": "succeeded", "amount": 1000, "currency": "eur", "balance_transaction": {"id": "txn_2", "amount": -1250, "fee": 0, "net": -1250, "currency": "usd"}}`,
			[]Moved{{1000, "eur", fold.Settled(-1250, 0, "usd")}}},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(tt.answer))
			})
			ask := c.Charged
			if id == "re_1" {
				ask = c.Refunded
			}
			got, err := ask(t.Context(), id, "acct_9")
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v (%v), want %+v", got, err, tt.want)
			}
			asked := s.requests()
			if len(asked) != 1 || asked[0].URL.RequestURI() != tt.uri || asked[0].Header.Get("Stripe-Account") != "acct_9" {
				t.Errorf("asked %v, want once %s", asked[0].URL, tt.uri)
			}
		})
	}
}

// pawl distinguishes a missing permission of the key from a temporary error.
func TestCharged_Refused_Denied(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := c.Charged(t.Context(), "pi_1", "")
	if failure, ok := errors.AsType[*effect.Failure](err); !ok || failure.Health != effect.Denied {
		t.Errorf("%v, want a rejected key", err)
	}
}
