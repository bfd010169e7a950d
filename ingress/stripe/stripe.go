// Package stripe verifies Stripe's webhooks: snapshot events (API v1, of the own account and of
// connected ones) and thin event notifications (API v2), which share one signature scheme.
//
// It does not decode into the types of an SDK: the payload has the API version of the endpoint, and an SDK of another
// version rejects it or leaves fields empty.
package stripe

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// signatureHeader holds "t=<seconds>,v1=<hex>[,v1=<hex>][,v0=<hex>]"; signed is "t.body" under
// the whole text of the secret, whsec_ included (stripe-go v76 webhook/client.go).
const signatureHeader = "Stripe-Signature"

// Provider is Stripe.
var Provider = hmac.New(webhook.Provider{
	Name: "stripe",
	Contract: webhook.Contract{
		Scheme:        "HMAC-SHA256 of t.body, any of several v1",
		ID:            "body id",
		Type:          "body type",
		Account:       "body account (Connect); thin events: body context",
		Object:        "body data.object.id; thin events: body related_object.id",
		OccurredAt:    "body created",
		Mode:          "body livemode",
		Identity:      webhook.ByID,
		Dedupe:        "event ID + account + mode",
		Retries:       "live: up to 3 days, exponentially; test: 3 times over a few hours",
		RetryFor:      72 * time.Hour,
		Disables:      "not published; its e-mails speak of nine consecutive days of failure",
		DisablesAfter: 9 * 24 * time.Hour,
		Options: map[string]string{
			"payload": "`snapshot` (default) or `thin`: the form of events that the endpoint is registered for. A source reads both. The option selects the list for `pawl gaps` and the endpoint watch, and explains rejections",
		},
	},
	// A paid invoice, or for a source of thin events an error of a meter.
	Sample: webhook.Sample{
		Type:     "invoice.paid",
		TypeWith: map[string]string{"payload=thin": "v1.billing.meter.error_report_triggered"},
		EventID:  func() string { return "evt_" + rand.Text()[:24] },
		Keys:     webhook.NewWhsec,
	},
}, hmac.Scheme{
	Header: signatureHeader, Prefix: "v1=", Separator: ",", Template: "{ts}.{body}", Timestamp: "signature:t",
	DecodeKey: decodeKey,
	Tolerance: 300 * time.Second, // as in Stripe's SDKs, but in both directions
}, newVerifier)

// decodeKey uses the text of a secret as the key.
func decodeKey(value string) ([]byte, error) {
	if value == "whsec_" {
		return nil, errors.New("it is the prefix of a secret only; copy the whole signing secret of the endpoint")
	}
	return []byte(value), nil
}

// verifier verifies the deliveries of one Stripe endpoint.
type verifier struct {
	*hmac.Verifier
	// thin is set for the endpoint of an event destination with thin payloads. It only affects the explanation of
	// rejections.
	thin bool
}

// newVerifier reads options.payload, the kind of events that the endpoint is registered for: "snapshot" (default) or
// "thin". Each kind has its own signing secret. Authentic events of either kind are read; the option only affects the
// explanation of rejections.
func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	payload, err := s.Choice("payload", "snapshot", "thin")
	return &verifier{v, payload == "thin"}, err
}

// Events implements [webhook.Verifier] and always returns one event.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	e := webhook.ReadEnvelope(r.Body)
	var event webhook.Event
	event.ID, event.IDOrigin = e.EventID("id")
	event.Type = e.EventType("type")
	event.Mode = e.Mode("livemode")
	switch kind := e.String("object"); {
	case kind == ThinObject:
		readThin(e, &event)
	case kind == "event" || kind == "" && !e.Has("object"):
		readSnapshot(e, &event)
	default:
		e.Note(webhook.UnknownEnvelope, "object is neither event nor "+ThinObject)
	}
	event.Problem = e.Problem()
	return []webhook.Event{event}
}

// ThinObject is the value of a thin event's "object".
const ThinObject = "v2.core.event"

// readSnapshot reads an event with its object. Some objects have no ID (invoice.upcoming).
func readSnapshot(e *webhook.Envelope, event *webhook.Event) {
	event.Account = e.Tag("account")
	event.Object = e.Tag("data.object.id")
	event.APIVersion = e.Tag("api_version")
	event.OccurredAt = e.UnixTime("created")
	if event.Account == "" && e.Has("account") {
		e.Note(webhook.UnknownEnvelope, "account is no ID") // without it the event would be of the source's own account
	}
	if e.Readable() && !e.Has("data.object") {
		e.Note(webhook.MissingObject, "data.object")
	}
}

// readThin reads an event notification: no snapshot, no API version, and created in RFC 3339, which stripe-go v76
// cannot decode. related_object may be missing.
func readThin(e *webhook.Envelope, event *webhook.Event) {
	event.Account = e.Tag("context")
	event.Object = e.Tag("related_object.id")
	event.OccurredAt = e.RFC3339("created")
}
