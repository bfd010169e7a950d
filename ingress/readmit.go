package ingress

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Readmit verifies a stored request again, against its own receive time, and returns the delivery that a live request
// would have produced, ready for [receipt.Store.Insert]. The headers of r are the stored ones. The query comes from
// r.URL and the rest of the URL from the source, as for a live request. The error is a *[webhook.Error] if the request
// is still refused, and another error if the verifier cannot decide at present.
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

// Filed returns the delivery of an event that was never delivered and that the caller read from the provider's API. It
// equals a live delivery of the same bytes, with [receipt.ByAPI] as its secret. account is the event's connected
// account if the event does not contain it.
func (s *Source) Filed(body []byte, account string, at time.Time) receipt.Delivery {
	return s.delivery(&webhook.Request{Method: http.MethodPost, URL: s.CalledURL(""), Header: http.Header{},
		Body: body, ReceivedAt: at},
		webhook.Match{Secret: receipt.ByAPI}, account)
}
