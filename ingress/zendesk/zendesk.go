// Package zendesk verifies Zendesk's webhooks: event subscriptions, and triggers and automations
// whose body their author wrote.
//
// Source: developer.zendesk.com/documentation/webhooks/verifying. The page of 2021 signed the body
// before the timestamp; that order is not accepted.
package zendesk

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader  = "X-Zendesk-Webhook-Signature"
	timestampHeader  = "X-Zendesk-Webhook-Signature-Timestamp"
	invocationHeader = "X-Zendesk-Webhook-Invocation-Id"
	accountHeader    = "X-Zendesk-Account-Id"
	tolerance        = 5 * time.Minute

	// eventTypePrefix begins the type of every subscribed event. An author-written body has no
	// such type, and whatever it calls "id" is not the event's.
	eventTypePrefix = "zen:event-type:"
)

// Provider is Zendesk.
var Provider = webhook.Provider{
	Name: "zendesk",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of timestamp and body, base64",
		ID:           "body id of subscribed events; else header X-Zendesk-Webhook-Invocation-Id (unsigned), else a hash",
		Type:         "body type of subscribed events",
		Account:      "body account_id, else header X-Zendesk-Account-Id",
		Object:       "body detail.id",
		OccurredAt:   "body time",
		Dedupe:       "event id; the invocation ID stays over its attempts",
		AnswerWithin: 12 * time.Second,
		Retries:      "timeouts, 429 and 503 again, 409 up to 3 times",
		Disables:     "circuit breaker at a high error rate",
		Headers:      webhook.Headers{Plain: []string{invocationHeader, accountHeader, "X-Zendesk-Webhook-Id"}, Signatures: []string{signatureHeader, timestampHeader}},
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

// Verify checks the signature over the timestamp's text and the body, and the timestamp. The body
// may be empty.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := r.HeaderOnce(timestampHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	at, err := parseTime(stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	match, err := webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New,
		[][]byte{webhook.DecodeBase64(signature)}, []byte(stamp), r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	if err := r.CheckClock(at, v.tolerance); err != nil {
		return webhook.Match{}, err
	}
	return match, nil
}

// parseTime reads an ISO 8601 time with a zone, in its extended form or with an offset without
// colon.
func parseTime(stamp string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			return at, nil
		}
	}
	return time.Time{}, webhook.Errorf(webhook.MalformedHeader, "%s is not an ISO 8601 time", timestampHeader)
}

// Events reads the one event of r.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{Account: r.HeaderTag(accountHeader)}
	if strings.HasPrefix(body.String("type"), eventTypePrefix) {
		e.ID, e.IDOrigin = body.EventID("id")
		e.Type = body.EventType("type")
		e.Object = body.Tag("detail.id")
		e.OccurredAt = body.RFC3339("time")
		if account := body.Tag("account_id"); account != "" {
			e.Account = account
		} else if e.IDOrigin == webhook.FromBody {
			e.Identity = webhook.ByIDOrBytes // nothing signs the header's, nor that there is none
		}
		e.Problem = body.Problem()
		return []webhook.Event{e}
	}
	e.ID, e.IDOrigin = r.HeaderID(body, invocationHeader)
	// Its author may have written a form or XML, or nothing for a GET or DELETE.
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		e.Problem = body.Problem()
	}
	return []webhook.Event{e}
}

// sign makes a delivery as Zendesk does.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := in.At.UTC().Format(time.RFC3339)
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(stamp), in.Body)
	contentType := in.ContentType
	if contentType == "" {
		contentType = "application/json; charset=utf-8"
	}
	header := http.Header{}
	header.Set("Content-Type", contentType)
	header.Set(timestampHeader, stamp)
	header.Set(signatureHeader, base64.StdEncoding.EncodeToString(mac))
	if in.ID != "" {
		header.Set(invocationHeader, in.ID)
	}
	if in.Account != "" {
		header.Set(accountHeader, in.Account)
	}
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
