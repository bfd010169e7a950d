// Package gethook verifies the outbound deliveries of GetHook, the webhook gateway.
//
// The signature header has the name of the header in Standard Webhooks, Webhook-Signature, but the format of Stripe's
// header. The name of the header therefore does not identify the scheme; the provider of the source does.
package gethook

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// IDHeaderOption is the key in Settings.Options for the name of the header with the event's ID. GetHook's documentation
// and SDKs define no such header.
const IDHeaderOption = "id_header"

// scheme signs "timestamp.body". The key is the text of the destination's signing secret
// (docs.gethook.to/guide/authentication.html). The tolerance is from GetHook's documentation.
var scheme = hmac.Scheme{
	Header: "Webhook-Signature", Prefix: "v1=", Separator: ",", Template: "{ts}.{body}", Timestamp: "signature:t",
	Tolerance: 300 * time.Second,
}

// Provider is GetHook. GetHook can send unsigned deliveries, but pawl requires a secret.
var Provider = hmac.New(webhook.Provider{
	Name: "gethook",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of timestamp.body",
		ID:           "the header in options.id_header; without this option, id in the body, else the hash of the body",
		Type:         "event_type in the body, else type",
		Account:      "none; pawl uses the name of the source",
		OccurredAt:   "received_at in the body",
		Generic:      true,
		Dedupe:       "event ID",
		AnswerWithin: 30 * time.Second,
		Retries:      "configured for each route at GetHook (max_attempts, backoff)",
		Disables:     "not published",
		Options: map[string]string{
			IDHeaderOption: "the name of the header with the event's ID, if the route at GetHook sends such a header",
		},
	},
	// Sign writes the ID into the header that the option names.
	Sign: func(in webhook.SignInput) (webhook.SignOutput, error) {
		out, err := hmac.Sign(scheme, in)
		if name := in.Options[IDHeaderOption]; err == nil && name != "" && in.ID != "" {
			out.Header.Set(name, in.ID)
		}
		return out, err
	},
}, scheme, newVerifier)

// verifier verifies the deliveries of one GetHook destination.
type verifier struct {
	*hmac.Verifier
	idHeader string
}

func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	name := s.Options[IDHeaderOption]
	if strings.ContainsAny(name, " \t\r\n:") || strings.EqualFold(name, scheme.Header) {
		return nil, fmt.Errorf("source %s: options.%s: %q is not a header name that can hold an ID; e.g. X-Webhook-Id",
			s.Source, IDHeaderOption, name)
	}
	return &verifier{v, name}, nil
}

func (v *verifier) Headers() webhook.Headers {
	return webhook.Headers{Plain: []string{v.idHeader}, Signatures: []string{scheme.Header}}
}

// Events implements [webhook.Verifier] and always returns one event. GetHook forwards bodies of other senders, so the
// body need not be GetHook's envelope, and a missing type is not a problem. The event ID is the value of the configured
// header. If no header is configured, the event ID is id in the body, or else the hash of the body. If a header is
// configured and missing, id in the body is not used: an attacker could otherwise turn the same bytes into another
// event by omitting the header.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	e := webhook.ReadEnvelope(r.Body)
	event := webhook.Event{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash}
	switch {
	case v.idHeader != "":
		event.ID, event.IDOrigin = r.HeaderID(e, v.idHeader)
	case e.String("id") != "":
		event.ID, event.IDOrigin = e.EventID("id")
	}
	event.Type = e.FirstTag("event_type", "type")
	event.OccurredAt = e.Moment("received_at")
	event.Problem = e.Problem()
	return []webhook.Event{event}
}
