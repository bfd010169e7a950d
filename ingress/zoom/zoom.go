// Package zoom verifies Zoom's webhooks and answers the validation of its endpoint.
//
// Source: developers.zoom.us/docs/api/webhooks. The secret is the app's secret token.
package zoom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// urlValidation is the type of the event that validates an endpoint. Zoom sends it when you register the endpoint, and
// then every 72 hours.
const urlValidation = "endpoint.url_validation"

// Provider is Zoom.
var Provider = hmac.New(webhook.Provider{
	Name: "zoom",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of v0:timestamp:body, in hex",
		OccurredAt:   "event_ts in the body (milliseconds)",
		Identity:     webhook.ByID,
		Dedupe:       "hash of the body",
		AnswerWithin: 3 * time.Second,
		Retries:      "3 retries: after 5, 20 and 60 min. Zoom does not document whether a retry has a new signature",
		RetryFor:     85 * time.Minute,
		Disables:     "if the endpoint does not answer endpoint.url_validation, which Zoom sends every 72 h",
		MinSecret:    webhook.MinSecret128,
	},
	Sample: webhook.Sample{Type: "meeting.started"},
}, hmac.Scheme{
	Header: "x-zm-signature", Prefix: "v0=", Template: "v0:{ts}:{body}", Timestamp: "header:x-zm-request-timestamp",
	// The last retry comes 85 minutes after the first attempt, and may have the same signed time. A long tolerance
	// allows no replay: equal bodies are one event, because the hash of the body is the ID.
	Tolerance: 90 * time.Minute,
	Type:      "/event", Account: "/payload/account_id", Object: "/payload/object/id", OccurredAt: "/event_ts",
	OccurredAtUnit: "ms",
}, func(v *hmac.Verifier, _ webhook.Settings) (webhook.Verifier, error) { return verifier{v}, nil })

type verifier struct{ *hmac.Verifier }

// Answer answers endpoint.url_validation with the token and the HMAC of the token. The HMAC key is the secret that
// admitted the request. Answer verifies the request again to get that secret. It must never sign the token of an
// unverified request: the HMAC is a valid signature, so an attacker could forge events.
func (v verifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	token := validationToken(r)
	if token == "" {
		return webhook.Answer{}, false
	}
	_, key, err := v.Admit(r)
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

// validationToken returns the token of an endpoint.url_validation, or "" for any other request.
func validationToken(r *webhook.Request) string {
	body := webhook.ReadEnvelope(r.Body)
	if body.String("event") != urlValidation {
		return ""
	}
	return body.String("payload.plainToken")
}

// Events returns the event of r, or no event for endpoint.url_validation.
func (v verifier) Events(r *webhook.Request) []webhook.Event {
	if validationToken(r) != "" {
		return nil
	}
	return v.Verifier.Events(r)
}
