// Package linear verifies Linear's webhooks.
//
// Source: linear.app/developers/webhooks, linear/linear packages/sdk/src/webhooks/client.ts.
package linear

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	timestampHeader = "Linear-Timestamp"
	deliveryHeader  = "Linear-Delivery"
	eventHeader     = "Linear-Event"
)

// scheme takes the signed time from the body. The header Linear-Timestamp repeats it but is not signed: the holder of a
// delivery could set it to the present time. Linear's SDK ignores the header since version 97.
var scheme = hmac.Scheme{
	Header: "Linear-Signature", Timestamp: "/webhookTimestamp", TimestampUnit: "ms", Tolerance: time.Minute,
	ID: "header:" + deliveryHeader,
}

// Provider is Linear. Its documentation does not state whether a retry after 6 h has a new webhookTimestamp. A source
// that rejects retries with timestamp_too_old needs a larger tolerance.
var Provider = hmac.New(webhook.Provider{
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
		Headers:      webhook.Headers{Plain: []string{timestampHeader, eventHeader}},
		BodyLimit:    5 << 20,                               // the limit of Linear's own library
		Acknowledge:  webhook.Answer{Status: http.StatusOK}, // it retries after any other status
	},
	Sign:   sign,
	Sample: webhook.Sample{Type: "Issue.create", EventID: webhook.RandomUUID},
}, scheme, func(v *hmac.Verifier, _ webhook.Settings) (webhook.Verifier, error) { return verifier{v}, nil })

type verifier struct{ *hmac.Verifier }

// Events returns the one event of r.
func (v verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:    body.EventType("type"),
		Account: body.Tag("organizationId"),
		// Events of agents, notifications and an issue's SLA have no data (@linear/sdk 98, webhooks/types).
		Object:     body.FirstTag("data.id", "agentSession.id", "notification.id", "issueData.id"),
		OccurredAt: body.RFC3339("createdAt"),
		// The attempts of one event differ in their time alone, so the signed text without the time identifies it.
		Signed: timestampMember.ReplaceAll(r.Body, []byte("${1}0")),
	}
	if action := webhook.Tag(body.String("action")); e.Type != "" && action != "" {
		e.Type += "." + action
	}
	if e.Type == "" {
		e.Type = r.HeaderTag(eventHeader)
	}
	e.ID, e.IDOrigin = webhook.HashID(e.Signed), webhook.FromHash
	if r.Header.Get(deliveryHeader) != "" {
		e.ID, e.IDOrigin = r.HeaderID(body, deliveryHeader)
	}
	if e.Problem = body.Problem(); e.Problem == "" {
		e.Problem = v.SchemeProblem(r, body)
	}
	return []webhook.Event{e}
}

// timestampMember finds webhookTimestamp in a body.
var timestampMember = regexp.MustCompile(`("webhookTimestamp"\s*:\s*)[0-9]+`)

// sign makes a delivery as Linear does. It sets a webhookTimestamp in the body, and the header, to the time of the
// delivery.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.UnixMilli(), 10)
	in.Body = timestampMember.ReplaceAll(in.Body, []byte("${1}"+stamp))
	out, err := hmac.Sign(scheme, in)
	if err != nil {
		return out, err
	}
	out.Header.Set(timestampHeader, stamp)
	if kind, _, _ := strings.Cut(in.Type, "."); kind != "" { // the action is in the body
		out.Header.Set(eventHeader, kind)
	}
	return out, nil
}
