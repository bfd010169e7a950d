package webhook

import "time"

// Mode tells test traffic from live traffic. It is part of an event's identity: a test purchase
// must never meet a live key.
type Mode string

// The two modes.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// IDOrigin says where an event's ID was found.
type IDOrigin string

// The places of IDs. FromHash marks an ID that pawl made from the bytes because the provider
// gives none: two different deliveries of equal bytes are then one event.
const (
	FromBody   IDOrigin = "body"
	FromHeader IDOrigin = "header"
	FromHash   IDOrigin = "hash"
)

// Event is the provider's fact as its envelope tells it: enough to identify and to route, no
// more. Empty strings and a zero time mean that the provider does not say.
type Event struct {
	ID       string
	IDOrigin IDOrigin
	// Identity overrides the other rules of [Contract.Identify]. Two cases need it: the source's settings have an ID
	// in a header signed, or the signature covers the ID and not the account or mode beside it.
	Identity Identity
	// Type is the provider's event type, e.g. "invoice.paid" or "issues.opened".
	Type string
	// Account is the provider-side tenant: a Connect account, a shop, a workspace.
	Account string
	// Mode is empty where the provider does not tell; the source's mode then holds.
	Mode Mode
	// Object is the ID of the thing that the event is about.
	Object string
	// OccurredAt is the provider's time of the fact. It is evidence, never a sequence: Stripe's
	// has a resolution of one second and ties are normal.
	OccurredAt time.Time
	// APIVersion is the version that the payload was rendered in.
	APIVersion string
	// Body holds this event's own bytes where one delivery carries many events (a SendGrid
	// batch); nil means the whole request body.
	Body []byte
	// Signed holds the signed text when the signature does not cover the body itself, or the body without the time of
	// sending. Other bytes with the same Signed are then this event, too. nil stands for the body.
	Signed []byte
	// Problem, when set, names why the authentic event cannot be run ("not_json: …"). The event is
	// kept and parked with this reason; it is never a reason to refuse the delivery.
	Problem string
}
