package ingress

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Readmit verifies a stored request again, with its original receive time. It returns the delivery for
// [receipt.Store.Insert] that a live request would have produced. r has the stored headers. Its query is from r.URL,
// and the rest of the URL is from the source. If the request is still refused, the error is a *[webhook.Error]. Any
// other error means that the request cannot be verified now.
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

// Filed returns the delivery of an event that was not delivered and that the caller read from the provider's API. It
// equals a live delivery of the same bytes, except that its secret is [receipt.ByAPI]. account is the connected account
// of the event if the event does not contain it.
func (s *Source) Filed(body []byte, account string, at time.Time) receipt.Delivery {
	return s.delivery(&webhook.Request{Method: http.MethodPost, URL: s.CalledURL(""), Header: http.Header{},
		Body: body, ReceivedAt: at},
		webhook.Match{Secret: receipt.ByAPI}, account)
}
