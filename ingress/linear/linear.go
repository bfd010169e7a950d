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

// scheme reads the signed time from the body. The header Linear-Timestamp contains the same time but is not signed: an
// attacker with a captured delivery could set it to the present time. Linear's SDK ignores the header since version 97.
var scheme = hmac.Scheme{
	Header: "Linear-Signature", Timestamp: "/webhookTimestamp", TimestampUnit: "ms", Tolerance: time.Minute,
	ID: "header:" + deliveryHeader,
}

// Provider is Linear. Linear's documentation does not state whether a retry after 6 h has a new webhookTimestamp. If a
// source rejects retries with timestamp_too_old, increase its tolerance.
var Provider = hmac.New(webhook.Provider{
	Name: "linear",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of the body, in hex; the signed time is webhookTimestamp in the body",
		ID:           "header Linear-Delivery, else a hash of the body",
		Type:         "type and action in the body, joined by a dot",
		Account:      "organizationId in the body",
		Object:       "data.id in the body, else agentSession.id, notification.id or issueData.id",
		OccurredAt:   "createdAt in the body",
		Identity:     webhook.ByIDOrBytes, // each attempt has its own webhookTimestamp
		Dedupe:       "Linear-Delivery (webhookId in the body is the ID of the webhook, not of the event)",
		AnswerWithin: 5 * time.Second,
		Retries:      "3 retries: after 1 min, 1 h and 6 h",
		RetryFor:     7*time.Hour + time.Minute,
		Disables:     "not published",
		Headers:      webhook.Headers{Plain: []string{timestampHeader, eventHeader}},
		BodyLimit:    5 << 20,                               // the limit of Linear's own library
		Acknowledge:  webhook.Answer{Status: http.StatusOK}, // Linear retries after any other status
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
		// Events about agents, notifications and the SLA of an issue contain no data object (@linear/sdk 98,
		// webhooks/types).
		Object:     body.FirstTag("data.id", "agentSession.id", "notification.id", "issueData.id"),
		OccurredAt: body.RFC3339("createdAt"),
		// The attempts of one event differ only in webhookTimestamp, so the body without webhookTimestamp identifies
		// the event.
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

// timestampMember matches the member webhookTimestamp of a body.
var timestampMember = regexp.MustCompile(`("webhookTimestamp"\s*:\s*)[0-9]+`)

// sign signs a delivery as Linear does. It sets webhookTimestamp in the body and the header Linear-Timestamp to in.At.
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
