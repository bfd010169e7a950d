package hmac

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// urlValidation is the event with which Zoom checks an endpoint, when it is registered and every
// 72 hours.
const urlValidation = "endpoint.url_validation"

var zoomScheme = Scheme{
	Header: "x-zm-signature", Prefix: "v0=", Template: "v0:{ts}:{body}", Timestamp: "header:x-zm-request-timestamp",
	// Its last retry comes after 85 minutes, perhaps under the time of the first try. What comes twice within that is one
	// event for ever, since the signed bytes are its ID.
	Tolerance: 90 * time.Minute,
	Type:      "/event", Account: "/payload/account_id", Object: "/payload/object/id", OccurredAt: "/event_ts", OccurredAtUnit: "ms",
}

// Zoom is Zoom (developers.zoom.us/docs/api/webhooks). Its secret is the app's secret token.
var Zoom = func() webhook.Provider {
	p := preset("zoom", zoomScheme, webhook.Contract{
		Scheme:       "HMAC-SHA256 of v0:timestamp:body, hex",
		ID:           "none (hash)",
		Type:         "body event",
		Account:      "body payload.account_id",
		Object:       "body payload.object.id",
		OccurredAt:   "body event_ts (ms)",
		Identity:     webhook.ByID,
		Dedupe:       "hash of the body",
		AnswerWithin: 3 * time.Second,
		Retries:      "3: after 5 min, 20 min, 60 min; whether they are signed anew is not published",
		RetryFor:     85 * time.Minute,
		Disables:     "when it does not answer endpoint.url_validation, repeated every 72 h",
		MinSecret:    webhook.MinSecret128,
	}, webhook.Sample{Type: "meeting.started"})
	p.New = func(s webhook.Settings) (webhook.Verifier, error) {
		s.MinSecret = webhook.MinSecret128
		v, err := newVerifier(s, zoomScheme)
		return webhook.AsVerifier(&zoomVerifier{v}, err)
	}
	return p
}()

type zoomVerifier struct{ *verifier }

// Answer answers endpoint.url_validation with the token and its HMAC under the secret that signed
// the request. It looks for that secret again and so gives nothing to a request that Verify would
// refuse: the answer is a signature, and whoever could choose what is signed could forge events.
func (v *zoomVerifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	body := webhook.ReadEnvelope(r.Body)
	token := body.String("payload.plainToken")
	if body.String("event") != urlValidation || token == "" {
		return webhook.Answer{}, false
	}
	_, key, err := v.admit(r)
	if err != nil {
		return webhook.Answer{}, false
	}
	answer, err := json.Marshal(map[string]string{
		"plainToken":     token,
		"encryptedToken": hex.EncodeToString(webhook.MAC(sha256.New, key, []byte(token))),
	})
	if err != nil {
		return webhook.Answer{}, false
	}
	return webhook.Answer{Status: http.StatusOK, ContentType: "application/json", Body: answer}, true
}

// Events reads the event of r; endpoint.url_validation carries none.
func (v *zoomVerifier) Events(r *webhook.Request) []webhook.Event {
	if webhook.ReadEnvelope(r.Body).String("event") == urlValidation {
		return nil
	}
	return v.verifier.Events(r)
}
