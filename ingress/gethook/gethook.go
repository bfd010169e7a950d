// Package gethook verifies the outbound deliveries of GetHook, the webhook gateway.
//
// Its header is called Webhook-Signature, as in Standard Webhooks, and has Stripe's format. The name of a header
// therefore does not identify the scheme; the source's configuration does.
package gethook

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// IDHeaderOption is the key of Settings.Options that names the header with the event's ID. GetHook's documentation and
// SDKs define no such header; see Events below.
const IDHeaderOption = "id_header"

// scheme signs "t.body" under the text of the destination's signing secret (docs.gethook.to/guide/authentication.html).
// Its tolerance is the one in GetHook's documentation.
var scheme = hmac.Scheme{
	Header: "Webhook-Signature", Prefix: "v1=", Separator: ",", Template: "{ts}.{body}", Timestamp: "signature:t",
	Tolerance: 300 * time.Second,
}

// Provider is GetHook. GetHook can deliver unsigned, but a source without a secret is rejected.
var Provider = hmac.New(webhook.Provider{
	Name: "gethook",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of t.body",
		ID:           "header " + IDHeaderOption + " (option); without that option body id; else the body's hash",
		Type:         "body event_type, else type",
		Account:      "none: the source's name",
		OccurredAt:   "body received_at",
		Generic:      true,
		Dedupe:       "event ID",
		AnswerWithin: 30 * time.Second,
		Retries:      "set per route at GetHook (max_attempts, backoff)",
		Disables:     "not published",
		Options: map[string]string{
			IDHeaderOption: "the header with the event's ID, where the route at GetHook sends one",
		},
	},
	// The ID goes into the configured header, if there is one.
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
// body need not be GetHook's envelope, and a missing type is not a problem. The ID comes from the configured header. If
// no header is configured, it is the body's id or else the hash of the body. The body's id never replaces a configured
// header: an attacker who omitted the header would otherwise turn the same bytes into another event.
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
