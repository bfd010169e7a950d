package ingress

import (
	"context"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Readmit verifies a kept request again, against its own receive time, and returns the delivery that a
// live one would have been, ready for [receipt.Store.Insert]. The request's query is taken from r.URL
// and the rest of the URL from the source, as when it came in. The error is a *[webhook.Error] when the
// request is refused, also now, and another when that cannot be known now.
func (s *Source) Readmit(ctx context.Context, r *webhook.Request) (receipt.Delivery, error) {
	again := *r
	again.URL = s.CalledURL(queryOf(r.URL))
	match, err := s.verify(ctx, &again)
	if err != nil {
		return receipt.Delivery{}, err
	}
	return s.delivery(&again, match), nil
}

// delivery is what is kept of a verified request, live or readmitted.
func (s *Source) delivery(r *webhook.Request, match webhook.Match) receipt.Delivery {
	events := s.Verifier.Events(r)
	d := receipt.Delivery{Source: s.Name, Provider: s.Provider.Name, Generic: s.Provider.Contract.Generic, ReceivedAt: r.ReceivedAt,
		Secret: match.Secret, Correlation: uuid.NewString(), Header: webhook.KeptHeader(r.Header), Events: make([]receipt.New, len(events))}
	for i, e := range events {
		d.Events[i] = s.accept(e, r.Body)
	}
	return d
}
