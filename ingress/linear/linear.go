// Package linear verifies Linear's webhooks.
//
// Source: linear.app/developers/webhooks, linear/linear packages/sdk/src/webhooks/client.ts.
package linear

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader = "Linear-Signature"
	timestampHeader = "Linear-Timestamp"
	deliveryHeader  = "Linear-Delivery"
	eventHeader     = "Linear-Event"
	timestampField  = "webhookTimestamp"
	tolerance       = time.Minute
)

// Provider is Linear. Whether a retry after 6 h carries a fresh webhookTimestamp is not
// documented; a source that sees timestamp_too_old on retries needs a wider tolerance.
var Provider = webhook.Provider{
	Name: "linear",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of body, hex; the time is webhookTimestamp in the body",
		ID:           "header Linear-Delivery (unsigned), else a hash",
		Type:         "body type.action",
		Account:      "body organizationId",
		Object:       "body data.id, else agentSession.id, notification.id or issueData.id",
		OccurredAt:   "body createdAt",
		Identity:     webhook.ByIDOrBytes, // each attempt has its own webhookTimestamp
		Dedupe:       "Linear-Delivery; webhookId names the configuration, not the event",
		AnswerWithin: 5 * time.Second,
		Retries:      "3: after 1 min, 1 h, 6 h",
		RetryFor:     7*time.Hour + time.Minute,
		Disables:     "not published",
		Headers:      webhook.Headers{Plain: []string{timestampHeader, deliveryHeader, eventHeader}, Signatures: []string{signatureHeader}},
		Tolerance:    tolerance,
		BodyLimit:    5 << 20, // that of Linear's own library
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

// Verify checks Linear-Signature over the body and then, as Linear's SDK does, the time that the
// body holds.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	match, err := webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New, [][]byte{webhook.DecodeHex(signature)}, r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	at, err := sentAt(r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	if err := r.CheckClockMilli(at, v.tolerance); err != nil {
		return webhook.Match{}, err
	}
	return match, nil
}

// sentAt returns the time of sending. Linear-Timestamp says it too and is not signed: whoever holds a
// delivery could write a fresh one, so Linear's SDK ignores it since 97.
func sentAt(body []byte) (time.Time, error) {
	envelope := webhook.ReadEnvelope(body)
	raw, there := envelope.Raw(timestampField)
	switch {
	case !envelope.Readable():
		return time.Time{}, webhook.Errorf(webhook.MalformedBody, "the body is not a JSON object, so it holds no %s", timestampField)
	case !there:
		return time.Time{}, webhook.Errorf(webhook.MalformedBody, "the body holds no %s, or two", timestampField)
	}
	at, err := webhook.ParseUnixMilli(timestampField, string(raw))
	if err != nil {
		return time.Time{}, webhook.Errorf(webhook.MalformedBody, "%s is not a time in milliseconds", timestampField)
	}
	return at, nil
}

// Events reads the one event of r.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:       body.EventType("type"),
		Account:    body.Tag("organizationId"),
		Object:     object(body),
		OccurredAt: body.RFC3339("createdAt"),
		// The attempts of one event differ in their time alone: each of them is known under another ID, too.
		Signed: timestampMember.ReplaceAll(r.Body, []byte("${1}0")),
	}
	if action := webhook.Tag(body.String("action")); e.Type != "" && action != "" {
		e.Type += "." + action
	}
	if e.Type == "" {
		e.Type = r.HeaderTag(eventHeader)
	}
	e.ID, e.IDOrigin = eventID(r, body, e.Object)
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// object returns the ID of what the event is about. Events of agents, notifications and an issue's SLA have no
// data (@linear/sdk 98, webhooks/types).
func object(body *webhook.Envelope) string {
	for _, path := range []string{"data.id", "agentSession.id", "notification.id", "issueData.id"} {
		if id := body.Tag(path); id != "" {
			return id
		}
	}
	return ""
}

// eventID returns Linear-Delivery, else the hash of what names the change. The body's own hash
// would change with each attempt's webhookTimestamp.
func eventID(r *webhook.Request, body *webhook.Envelope, object string) (string, webhook.IDOrigin) {
	if r.Header.Get(deliveryHeader) != "" {
		return r.HeaderID(body, deliveryHeader)
	}
	created := body.String("createdAt")
	if object == "" || created == "" {
		return webhook.HashID(r.Body), webhook.FromHash
	}
	var named []byte
	for _, field := range []string{body.String("organizationId"), body.String("type"), body.String("action"), object, created} {
		named = strconv.AppendQuote(named, field)
	}
	return webhook.HashID(named), webhook.FromHash
}

// Acknowledge answers 200: Linear retries after any other status.
func (v *verifier) Acknowledge() webhook.Answer { return webhook.Answer{Status: http.StatusOK} }

// timestampMember finds webhookTimestamp in a body.
var timestampMember = regexp.MustCompile(`("webhookTimestamp"\s*:\s*)[0-9]+`)

// sign makes a delivery as Linear does. A webhookTimestamp in the body is set to the time of the
// delivery, and so is the header.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.UnixMilli(), 10)
	body := timestampMember.ReplaceAll(in.Body, []byte("${1}"+stamp))
	mac := webhook.MAC(sha256.New, []byte(in.Secret), body)
	header := http.Header{}
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set(signatureHeader, hex.EncodeToString(mac))
	header.Set(timestampHeader, stamp)
	if in.ID != "" {
		header.Set(deliveryHeader, in.ID)
	}
	if kind, _, _ := strings.Cut(in.Type, "."); kind != "" { // the action stands in the body
		header.Set(eventHeader, kind)
	}
	return webhook.SignOutput{Header: header, Body: body, URL: in.URL}, nil
}
