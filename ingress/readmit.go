package ingress

import (
	"net/http"
	"time"

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
	again.URL = s.CalledURL(r.Query())
	match, err := s.Verifier.Verify(&again)
	if err != nil {
		return receipt.Delivery{}, err
	}
	return s.delivery(&again, match, ""), nil
}

// Filed returns the delivery of an event that never came, and that the caller has from the provider's API. It is like
// a live one of the same bytes, with [receipt.ByAPI] as its secret. account is the event's connected account, if the
// event does not say it.
func (s *Source) Filed(body []byte, account string, at time.Time) receipt.Delivery {
	return s.delivery(&webhook.Request{Method: http.MethodPost, URL: s.CalledURL(""), Header: http.Header{},
		Body: body, ReceivedAt: at},
		webhook.Match{Secret: receipt.ByAPI}, account)
}
