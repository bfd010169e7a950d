// Package square verifies Square's webhooks.
//
// Source: developer.squareup.com/docs/webhooks/step3validate, square-go-sdk webhooks/client.
package square

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const signatureHeader = "X-Square-Hmacsha256-Signature"

// Provider is Square. It signs the notification URL, so a source needs its public URL exactly as
// it was registered. The older x-square-signature (SHA-1) is not read. Nothing is timed: only the
// dedupe of event_id stops a replay.
var Provider = webhook.Provider{
	Name: "square",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of notification URL and body, base64",
		ID:           "body event_id",
		Type:         "body type",
		Account:      "body merchant_id",
		Object:       "body data.id",
		OccurredAt:   "body created_at",
		Identity:     webhook.ByID,
		Dedupe:       "event_id",
		AnswerWithin: 10 * time.Second,
		Retries:      "for up to 24 h, at growing intervals",
		RetryFor:     24 * time.Hour,
		Headers:      webhook.Headers{Plain: []string{"Square-Retry-Number", "Square-Retry-Reason", "Square-Initial-Delivery-Timestamp"}, Signatures: []string{signatureHeader}},
		Disables:     "no 2xx within three weeks",
		MinSecret:    webhook.MinSecret128,
	},
	New:    newVerifier,
	Sign:   sign,
	Sample: sample,
}

type verifier struct {
	keys *webhook.Keyring[[]byte]
	url  string
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	s.MinSecret = webhook.MinSecret128
	keys, err := webhook.NewHMACKeyring(s, webhook.TextKey)
	if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		err = errors.Join(err, fmt.Errorf("source %s: url: Square signs it, and it is missing or no http(s) URL; set it exactly as it stands in the Square subscription", s.Source))
	}
	if err != nil {
		return nil, err
	}
	return &verifier{keys: keys, url: s.URL}, nil
}

// Verify checks the signature over the registered URL and the body.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	return webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New,
		[][]byte{webhook.DecodeBase64(signature)}, []byte(v.url), r.Body)
}

// Events reads the notification.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:       body.EventType("type"),
		Account:    body.Tag("merchant_id"),
		Object:     body.Tag("data.id"),
		OccurredAt: body.RFC3339("created_at"),
	}
	e.ID, e.IDOrigin = body.EventID("event_id")
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// sign makes a notification as Square does.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(in.URL), in.Body)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set(signatureHeader, base64.StdEncoding.EncodeToString(mac))
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
