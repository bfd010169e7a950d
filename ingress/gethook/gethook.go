// Package gethook verifies the outbound deliveries of GetHook, the webhook gateway.
//
// Its header is called Webhook-Signature, like that of Standard Webhooks, and has Stripe's form:
// header names tell nothing, the source's configuration decides.
package gethook

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// signatureHeader holds "t=<seconds>,v1=<hex>"; signed is "t.body" under the text of the
// destination's signing secret (docs.gethook.to/guide/authentication.html).
const signatureHeader = "Webhook-Signature"

// tolerance is the one that GetHook's documents ask of receivers.
const tolerance = 300 * time.Second

// IDHeaderOption is the key of Settings.Options that names the header with the event's ID.
// GetHook's documents and SDKs name none; see Events below.
const IDHeaderOption = "id_header"

// Provider is GetHook.
var Provider = webhook.Provider{
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
		Tolerance: tolerance,
	},
	New:  newVerifier,
	Sign: sign,
}

// verifier verifies the deliveries of one GetHook destination.
type verifier struct {
	ring      *webhook.Keyring[[]byte]
	tolerance time.Duration
	idHeader  string
}

// newVerifier returns the verifier of the source that s describes. GetHook can deliver unsigned;
// a source without a secret is refused all the same.
func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	ring, tol, ringErr := webhook.NewTimedHMACKeyring(s, webhook.TextKey, tolerance)
	v := &verifier{ring, tol, s.Options[IDHeaderOption]}
	var headerErr error
	if strings.ContainsAny(v.idHeader, " \t\r\n:") || strings.EqualFold(v.idHeader, signatureHeader) {
		headerErr = fmt.Errorf("source %s: options.%s: %q is no header that can hold an ID; e.g. X-Webhook-Id", s.Source, IDHeaderOption, v.idHeader)
	}
	if err := errors.Join(ringErr, headerErr); err != nil {
		return nil, err
	}
	return v, nil
}

// Headers implements [webhook.Headed].
func (v *verifier) Headers() webhook.Headers {
	return webhook.Headers{Plain: []string{v.idHeader}, Signatures: []string{signatureHeader}}
}

// Verify implements [webhook.Verifier].
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	return scheme.Verify(r, v.ring, v.tolerance)
}

var scheme = webhook.TimestampedScheme{Header: signatureHeader, Separator: ",", Time: "t", Signature: "v1", Joint: "."}

// Events implements [webhook.Verifier]: always one event. GetHook forwards what others send, so
// the body need not be its own envelope: the ID is that of the configured header, or the body's id where
// none is configured, else the body's hash, and a missing type is no problem. Where one is configured the
// body's id never stands in for it: who left the header out would make another event of the same bytes.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	e := webhook.ReadEnvelope(r.Body)
	var event webhook.Event
	switch {
	case v.idHeader != "":
		event.ID, event.IDOrigin = r.HeaderID(e, v.idHeader)
	case e.String("id") != "":
		event.ID, event.IDOrigin = e.EventID("id")
	default:
		event.ID, event.IDOrigin = webhook.HashID(r.Body), webhook.FromHash
	}
	if event.Type = e.Tag("event_type"); event.Type == "" {
		event.Type = e.Tag("type")
	}
	event.OccurredAt = e.Moment("received_at")
	event.Problem = e.Problem()
	return []webhook.Event{event}
}
