package ingress

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Readmit verifies a kept request again, against its own receive time, and returns the delivery that a
// live one would have been, ready for [receipt.Store.Insert]. The request's query is taken from r.URL
// and the rest of the URL from the source, as when it came in. The error is a *[webhook.Error] when the
// request is refused, also now, and another when that cannot be known now. Its headers are those that were kept.
func (s *Source) Readmit(r *webhook.Request) (receipt.Delivery, error) {
	again := *r
	again.Kept = true
	again.URL = s.CalledURL(queryOf(r.URL))
	match, err := s.Verifier.Verify(&again)
	if err != nil {
		return receipt.Delivery{}, err
	}
	return s.delivery(&again, match), nil
}

// Filed returns the delivery of an event that the provider's API has shown, and that never came: what a live one of the
// same bytes would have been, but for its secret, which is [receipt.ByAPI]. Nobody has signed it: the caller has it from
// the API itself. account is the connected account that it is of, where the event does not say.
func (s *Source) Filed(body []byte, account string, at time.Time) receipt.Delivery {
	return s.delivery(&webhook.Request{Method: http.MethodPost, URL: s.CalledURL(""), Header: http.Header{}, Body: body, ReceivedAt: at},
		webhook.Match{Secret: receipt.ByAPI}, func(e *webhook.Event) { e.Account = cmp.Or(e.Account, account) })
}

// maxEvents is how many events of a delivery are run. No provider sends more than some thousand at once; what has more
// is kept whole, as one event that waits for a person.
const maxEvents = 20_000

// delivery is what is kept of a verified request, live or readmitted.
func (s *Source) delivery(r *webhook.Request, match webhook.Match, changes ...func(*webhook.Event)) receipt.Delivery {
	events := s.Verifier.Events(r)
	if len(events) > maxEvents {
		events = []webhook.Event{{Problem: fmt.Sprintf("%s: %d, and a delivery is run up to %d", webhook.TooManyEvents, len(events), maxEvents)}}
	}
	d := receipt.Delivery{Source: s.Name, Provider: s.Provider.Name, Generic: s.Provider.Contract.Generic, Relays: s.Relays, ReceivedAt: r.ReceivedAt,
		Secret: match.Secret, Correlation: uuid.NewString(), Header: webhook.HeadersOf(s.Provider, s.Verifier).OfReceipt(r.Header), Events: make([]receipt.New, len(events))}
	for i, e := range events {
		for _, change := range changes {
			change(&e)
		}
		d.Events[i] = s.accept(e, r.Body)
	}
	if match.Transmission != "" {
		d.Transmission = receipt.Transmission{ID: identifier(match.Transmission), Body: sha256.Sum256(r.Body)}
	}
	// Beside the headers that came, as the bytes are relayed with both.
	d.Header.Set(webhook.SchemeHeader, string(cmp.Or(match.Covers, webhook.SignedBody)))
	return d
}
