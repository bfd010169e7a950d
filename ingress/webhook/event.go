package webhook

import "time"

// Mode distinguishes test traffic from live traffic. It is part of an event's identity, so that a test purchase never
// shares a key with a live one.
type Mode string

// The two modes.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// IDOrigin is the place where an event's ID was found.
type IDOrigin string

// The places of IDs. FromHash marks an ID that pawl derived from the bytes because the provider sends none. Two
// deliveries of equal bytes are then one event.
const (
	FromBody   IDOrigin = "body"
	FromHeader IDOrigin = "header"
	FromHash   IDOrigin = "hash"
)

// Event is an event as its envelope describes it: enough to identify and route it. A field is empty, or the zero time,
// if the provider does not send it.
type Event struct {
	ID       string
	IDOrigin IDOrigin
	// Occurrence is the provider's ID of the event and Hook the ID of the subscription, if the provider sends them in
	// headers beside an ID of the delivery. They need not be signed: they only distinguish an event that arrives
	// through two subscriptions from a replay.
	Occurrence, Hook string
	// Identity overrides the other rules of [Contract.Identify]. Two cases need it: the source's settings have an ID
	// in a header signed, or the signature covers the ID and not the account or mode beside it.
	Identity Identity
	// Type is the provider's event type, e.g. "invoice.paid" or "issues.opened".
	Type string
	// Account is the provider-side tenant: a Connect account, a shop, a workspace.
	Account string
	// Mode is empty if the provider does not send it. The source's mode then applies.
	Mode Mode
	// Object is the ID of the object that the event is about.
	Object string
	// OccurredAt is the provider's time of the event. It does not order events: Stripe's has a resolution of one
	// second, and equal times are common.
	OccurredAt time.Time
	// APIVersion is the version that the payload was rendered in.
	APIVersion string
	// Body holds this event's bytes if one delivery contains many events (a SendGrid batch). nil means the whole
	// request body.
	Body []byte
	// Signed holds the signed text if the signature does not cover the body itself, or the body without its time of
	// sending. Deliveries with equal Signed are one event even if their bytes differ. nil means the body.
	Signed []byte
	// Problem, when set, names why the authentic event cannot be run ("not_json: …"). The event is stored and parked
	// with this reason. It never causes a rejection of the delivery.
	Problem string
}
