// Package zendesk verifies Zendesk's webhooks: event subscriptions, and triggers and automations with bodies that a
// user of Zendesk wrote.
//
// Source: developer.zendesk.com/documentation/webhooks/verifying. The page of 2021 signed the body before the
// timestamp; that order is rejected.
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

	// eventTypePrefix begins the type of every subscribed event. A user-written body has no such type, and an "id" in
	// it is not the ID of the event.
	eventTypePrefix = "zen:event-type:"
)

// Provider is Zendesk.
var Provider = hmac.New(webhook.Provider{
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
			e.Identity = webhook.ByIDOrBytes // the account may come from the unsigned header
		}
		e.Problem = body.Problem()
		return []webhook.Event{e}
	}
	e.ID, e.IDOrigin = r.HeaderID(body, invocationHeader)
	// The user may have written a form or XML, or an empty body for a GET or DELETE.
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		e.Problem = body.Problem()
	}
	return []webhook.Event{e}
}
