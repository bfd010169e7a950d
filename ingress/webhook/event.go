package webhook

import "time"

// Mode distinguishes test events from live events. It is part of an event's identity, so that a test purchase and a
// live purchase never have the same key.
type Mode string

// An event has one of these two modes.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// IDOrigin is the place where an event's ID was found.
type IDOrigin string

// FromHash means that the provider sends no ID, and pawl uses a hash of the bytes as the ID. Two deliveries of equal
// bytes are then one event.
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
	// Some providers send the ID of the delivery, the ID of the event (Occurrence) and the ID of the subscription
	// (Hook) in headers. Occurrence and Hook need not be signed: they only distinguish a replay from an event that
	// arrives through two subscriptions.
	Occurrence, Hook string
	// Identity, if set, is the result of [Contract.Identify]. A provider sets it in two cases. The settings of the
	// source make the sender sign an ID in a header; or the signature covers the ID but not the account or the mode.
	Identity Identity
	// Type is the provider's event type, e.g. "invoice.paid" or "issues.opened".
	Type string
	// Account is the customer's account at the provider: a Connect account, a shop, a workspace.
	Account string
	// Mode is empty if the provider does not send it. The source's mode then applies.
	Mode Mode
	// Object is the ID of the object that changed, for example an invoice.
	Object string
	// OccurredAt is the provider's time of the event. Do not sort events by it: Stripe's times are whole seconds, so
	// many events have equal times.
	OccurredAt time.Time
	// APIVersion is the version of the provider's API that determines the format of the payload.
	APIVersion string
	// Body holds this event's bytes if one delivery contains many events (a SendGrid batch). nil means the whole
	// request body.
	Body []byte
	// Signed identifies the event if the bytes of the body do not: it is the signed text if the signature covers
	// another text than the body, or the body without its time of sending. Deliveries with equal Signed are one event
	// even if their bytes differ. nil means the body.
	Signed []byte
	// Problem, when set, names why the authentic event cannot be run ("not_json: …"). The event is stored and parked
	// with this reason. It never causes a rejection of the delivery.
	Problem string
}
