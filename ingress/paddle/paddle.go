// Package paddle verifies Paddle Billing's notifications.
//
// Source: developer.paddle.com/webhooks/signature-verification, paddle-python-sdk. The header is
// read here and not by paddle-go-sdk, whose pattern refuses the two h1 that a rotation sends.
package paddle

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader = "Paddle-Signature"
	// Paddle's SDKs allow 5 s (Python) or do not look (Go). Five seconds refuses what waited
	// behind a proxy; five minutes is what the other timed schemes allow.
	tolerance = 5 * time.Minute
)

// Provider is Paddle Billing. The secret is the whole pdl_ntfset_… text; it belongs to one
// notification destination of one account, so no account is told.
var Provider = webhook.Provider{
	Name: "paddle",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of ts:body, hex, several h1",
		ID:           "body event_id",
		Type:         "body event_type",
		Object:       "body data.id",
		OccurredAt:   "body occurred_at",
		Identity:     webhook.ByID,
		Dedupe:       "event_id; notification_id is new for each destination and replay",
		AnswerWithin: 5 * time.Second,
		Retries:      "60 over 3 days, exponential (sandbox: 3 over 15 min)",
		RetryFor:     72 * time.Hour,
		Disables:     "not published",
		Headers:      webhook.Headers{Signatures: []string{signatureHeader}},
		Tolerance:    tolerance,
	},
	New:    newVerifier,
	Sign:   sign,
	Sample: sample,
}

type verifier struct {
	keys      *webhook.Keyring[[]byte]
	tolerance time.Duration
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	keys, limit, err := webhook.NewTimedHMACKeyring(s, webhook.TextKey, tolerance)
	if err != nil {
		return nil, err
	}
	return &verifier{keys: keys, tolerance: limit}, nil
}

// Verify checks each h1 of Paddle-Signature over ts:body, and ts.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	return scheme.Verify(r, v.keys, v.tolerance)
}

var scheme = webhook.TimestampedScheme{Header: signatureHeader, Separator: ";", Time: "ts", Signature: "h1", Joint: ":"}

// Events reads the notification.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:       body.EventType("event_type"),
		Object:     body.Tag("data.id"),
		OccurredAt: body.RFC3339("occurred_at"),
	}
	e.ID, e.IDOrigin = body.EventID("event_id")
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// Acknowledge answers 200: Paddle documents that status and no other.
func (v *verifier) Acknowledge() webhook.Answer { return webhook.Answer{Status: http.StatusOK} }

// sign makes a notification as Paddle does.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(stamp+":"), in.Body)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set(signatureHeader, "ts="+stamp+";h1="+hex.EncodeToString(mac))
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
