// Package stripe verifies Stripe's webhooks: snapshot events (API v1) and thin events (API v2). Both have the same
// signature scheme.
//
// It does not decode payloads into the types of Stripe's SDK. A payload has the API version of its endpoint, and an SDK
// for another version rejects it or leaves fields empty.
package stripe

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// signatureHeader contains "t=<seconds>,v1=<hex>[,v1=<hex>][,v0=<hex>]". Stripe signs "seconds.body". The key is the
// whole text of the secret with the prefix whsec_ (stripe-go v76 webhook/client.go).
const signatureHeader = "Stripe-Signature"

// Provider is Stripe.
var Provider = hmac.New(webhook.Provider{
	Name: "stripe",
	Contract: webhook.Contract{
		Scheme:        "HMAC-SHA256 of timestamp.body; the header may contain several v1 signatures",
		ID:            "id in the body",
		Type:          "type in the body",
		Account:       "account in the body (Connect); thin events: context in the body",
		Object:        "data.object.id in the body; thin events: related_object.id in the body",
		OccurredAt:    "created in the body",
		Mode:          "livemode in the body",
		Identity:      webhook.ByID,
		Dedupe:        "event ID, account and mode",
		Retries:       "live: for up to 3 days, at exponential intervals; test: 3 retries in a few hours",
		RetryFor:      72 * time.Hour,
		Disables:      "not published; Stripe's e-mails mention nine days of failures in a row",
		DisablesAfter: 9 * 24 * time.Hour,
		Options: map[string]string{
			"payload": "`snapshot` (default) or `thin`: the form of events that you selected for the endpoint at Stripe. The source accepts both forms. The option selects the events that `pawl events backfill` lists at Stripe, the endpoint that pawl monitors there, and the hints for rejected requests",
		},
	},
	// The default test event is a paid invoice, or a meter error for a source of thin events.
	Sample: webhook.Sample{
		Type:     "invoice.paid",
		TypeWith: map[string]string{"payload=thin": "v1.billing.meter.error_report_triggered"},
		EventID:  func() string { return "evt_" + rand.Text()[:24] },
		Keys:     webhook.NewWhsec,
	},
}, hmac.Scheme{
	Header: signatureHeader, Prefix: "v1=", Separator: ",", Template: "{ts}.{body}", Timestamp: "signature:t",
	DecodeKey: decodeKey,
	Tolerance: 300 * time.Second, // as in Stripe's SDKs, but pawl checks both directions
}, newVerifier)

// decodeKey returns the whole text of a secret as the key.
func decodeKey(value string) ([]byte, error) {
	if value == "whsec_" {
		return nil, errors.New("it is the prefix of a secret only; copy the whole signing secret of the endpoint")
	}
	return []byte(value), nil
}

// verifier verifies the deliveries of one Stripe endpoint.
type verifier struct {
	*hmac.Verifier
	// thin is set if options.payload is thin. Only Hints uses it.
	thin bool
}

// newVerifier reads options.payload, the form of events that the operator selected at Stripe: "snapshot" (default) or
// "thin". The verifier accepts authentic events of both forms; the option only affects the hints for rejected requests.
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

// ThinObject is the value of "object" in a thin event.
const ThinObject = "v2.core.event"

// readSnapshot reads a snapshot event. Some objects have no ID, for example in invoice.upcoming.
func readSnapshot(e *webhook.Envelope, event *webhook.Event) {
	event.Account = e.Tag("account")
	event.Object = e.Tag("data.object.id")
	event.APIVersion = e.Tag("api_version")
	event.OccurredAt = e.UnixTime("created")
	if event.Account == "" && e.Has("account") {
		e.Note(webhook.UnknownEnvelope, "account is not an ID") // no account means the own account
	}
	if e.Readable() && !e.Has("data.object") {
		e.Note(webhook.MissingObject, "data.object")
	}
}

// readThin reads a thin event. It has no API version, and created is in RFC 3339. related_object may be missing.
func readThin(e *webhook.Envelope, event *webhook.Event) {
	event.Account = e.Tag("context")
	event.Object = e.Tag("related_object.id")
	event.OccurredAt = e.RFC3339("created")
}
