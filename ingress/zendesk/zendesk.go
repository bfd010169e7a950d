// Package zendesk verifies Zendesk's webhooks: event subscriptions, triggers and automations. The body of a trigger or
// an automation is a template that a user of Zendesk wrote.
//
// Source: developer.zendesk.com/documentation/webhooks/verifying. In the documentation of 2021, the signed text was
// body and timestamp; Zendesk now signs timestamp and body.
package zendesk

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	invocationHeader = "X-Zendesk-Webhook-Invocation-Id"
	accountHeader    = "X-Zendesk-Account-Id"
	hookHeader       = "X-Zendesk-Webhook-Id"

	// eventTypePrefix is the prefix of the type of every event from an event subscription. A body without such a type
	// was written by a user, and an "id" in it is not an event ID.
	eventTypePrefix = "zen:event-type:"
)

// Provider is Zendesk.
var Provider = hmac.New(webhook.Provider{
	Name: "zendesk",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of timestamp and body, in base64",
		ID:           "event subscriptions: id in the body; triggers and automations: header X-Zendesk-Webhook-Invocation-Id, else the hash of the body",
		Type:         "event subscriptions: type in the body",
		Account:      "account_id in the body, else header X-Zendesk-Account-Id",
		Object:       "detail.id in the body",
		OccurredAt:   "time in the body",
		Dedupe:       "event subscriptions: event ID; triggers and automations: invocation ID, which is the same in each attempt",
		AnswerWithin: 12 * time.Second,
		Retries:      "after timeouts, 429 and 503; after 409 up to 3 times",
		Disables:     "a circuit breaker stops deliveries while the error rate is high",
		Headers:      webhook.Headers{Plain: []string{hookHeader}},
	},
	Sample: webhook.Sample{Type: "zen:event-type:ticket.created"},
}, hmac.Scheme{
	Header: "X-Zendesk-Webhook-Signature", Encoding: "base64", Template: "{ts}{body}",
	Timestamp: "header:X-Zendesk-Webhook-Signature-Timestamp", TimestampUnit: "rfc3339",
	ID: "header:" + invocationHeader, Account: "header:" + accountHeader,
}, func(v *hmac.Verifier, _ webhook.Settings) (webhook.Verifier, error) { return verifier{v}, nil })

type verifier struct{ *hmac.Verifier }

// Events returns the one event of r.
func (v verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{Account: r.HeaderTag(accountHeader), Hook: r.HeaderTag(hookHeader)}
	if strings.HasPrefix(body.String("type"), eventTypePrefix) {
		e.ID, e.IDOrigin = body.EventID("id")
		e.Type = body.EventType("type")
		e.Object = body.Tag("detail.id")
		e.OccurredAt = body.RFC3339("time")
		if account := body.Tag("account_id"); account != "" {
			e.Account = account
		} else if e.IDOrigin == webhook.FromBody {
			e.Identity = webhook.ByIDOrBytes // the account is from the unsigned header
		}
		e.Problem = body.Problem()
		return []webhook.Event{e}
	}
	e.ID, e.IDOrigin = r.HeaderID(body, invocationHeader)
	// A body that a user wrote may also be a form or XML, or be empty.
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		e.Problem = body.Problem()
	}
	return []webhook.Event{e}
}
