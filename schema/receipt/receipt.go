package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/schema/event"
)

// Key identifies an event. Account is "" if the provider has no tenants.
type Key struct {
	Provider, Account, Mode, EventID string
}

// Delivery is one authentic request with its events, as the ingress stores it.
type Delivery struct {
	Source   string
	Provider string
	// Generic marks a Provider for many senders: the same bytes from another source of it are not a replay.
	Generic bool
	// Relays is set if the source has consumers of its own.
	Relays     bool
	ReceivedAt time.Time
	// Secret is the label of the secret that admitted the request, or [ByAPI].
	Secret string
	// Header is stored beside the body. The caller has removed the headers that must not be stored.
	Header http.Header
	// Transmission, if set, parks the events if other bytes came first with its ID.
	Transmission Transmission
	Events       []New
}

// ByAPI replaces the label of the secret for events that were read from the provider's API.
const ByAPI = "(api)"

// Identity is how an event is identified. It decides whether a delivery is a duplicate, a replay or a different event.
//
// If the signature does not cover an event's whole key, anybody who resends signed bytes can change the key. The same
// bytes under another key are then a suspected replay, see [SuspectedReplay].
type Identity string

const (
	// ByID is for a signed key. Other bytes under it are a duplicate, but see [IDCollision].
	ByID Identity = "id"
	// ByBytes is for an unsigned key, which identifies an event only together with the bytes. Other bytes under it are
	// another event; its receipt gets the ID "<ID>~" and 16 digits of its hash.
	ByBytes Identity = "bytes"
	// ByIDOrBytes is for an unsigned or partly signed key. Other bytes under it are treated as with ByID, because the
	// bytes of one event may differ.
	ByIDOrBytes Identity = "id_or_bytes"
)

// New is one event of a delivery. Its strings must be valid UTF-8 without NUL, because a Postgres text stores nothing
// else. The ingress guarantees it.
type New struct {
	Account    string
	Mode       string
	EventID    string // 1 to 200 bytes
	Identity   Identity
	Type       string
	Object     string
	APIVersion string
	// Correlation is the source's own ID of the process that the event belongs to. Without one, it is the same for all
	// events of one request.
	Correlation string
	// Occurrence is the provider's ID of the event, and Hook its ID of the subscription, if the provider sends them
	// beside an ID of the delivery.
	Occurrence, Hook string
	// RelayOnly is set if the only effects of the event are deliveries to its source's consumers.
	RelayOnly  bool
	OccurredAt time.Time // zero if the provider does not send it
	// Status is Received, or Ignored or NeedsReview with a Reason.
	Status Status
	Reason string
	// Body holds the event's own bytes, stored unchanged.
	Body []byte
	// Signed replaces Body wherever bytes are compared; nil means Body. It is set to the signed content if one
	// signature fits several spellings of a body, or to the part that is equal in every attempt.
	Signed []byte
}

func (n *New) hash() [sha256.Size]byte {
	if n.Signed != nil {
		return sha256.Sum256(n.Signed)
	}
	return sha256.Sum256(n.Body)
}

// Outcome is the result of one event of a delivery. If Insert returned it without an error, the event is committed.
type Outcome struct {
	ReceiptID string
	// EventID is the receipt's event ID: the event's own, or one made by [ApartID].
	EventID string
	// Duplicate is true if the event already had a receipt. ReceiptID and Status then describe that receipt.
	Duplicate bool
	Status    Status
	// Reason explains a Status other than Received.
	Reason string
	// Uncounted is why the duplicate could not be counted, or nil. The event is stored in either case.
	Uncounted error

	// other: another event has this event's ID. wanted: the event takes over the receipt of its ID. crowded: the event
	// was left out of its flush. open: its receipt has not been read yet. again: the duplicate is not counted yet.
	other, wanted, crowded, open, again bool
}

// Pending is a receipt that waits for its workflow. It contains all that a start needs, and no payload.
type Pending struct {
	event.Ref
	Source     string
	ReceivedAt time.Time
	// WorkflowID is the ID to start the workflow under; "" means the event's own.
	WorkflowID string
	// Rerun is set if a person requested another run.
	Rerun *Rerun
	// Trace is the traceparent of the delivery, or "" if it was not traced or its body is erased.
	Trace string
}

// Traced returns ctx as part of the delivery's trace.
func (p Pending) Traced(ctx context.Context) context.Context { return event.WithTrace(ctx, p.Trace) }

// Receipt is the durable record of one event.
type Receipt struct {
	ID string
	// Source is the source that verified the bytes with its secret. The event runs for it.
	Source   string
	Provider string
	Account  string
	Mode     string
	EventID  string
	// RelayOf is set if this receipt only relays the event: the ID of the event, which another source's receipt runs.
	RelayOf       string
	Identity      Identity
	Type          string
	ObjectID      string
	APIVersion    string
	OccurredAt    *time.Time
	ReceivedAt    time.Time
	BodyHash      []byte
	SecretLabel   string
	CorrelationID string
	// Replayed is set if another event has the same bytes and the ID is unsigned.
	Replayed   bool
	Status     Status
	Reason     string
	ReasonCode string
	WorkflowID string
	LastError  string
	Duplicates int
	UpdatedAt  time.Time
	// BeforeEffects is set if the event occurred before the effects of its mode began.
	BeforeEffects bool
}

// Ref returns the reference of the receipt's event.
func (r Receipt) Ref() event.Ref {
	return event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode, EventID: r.EventID,
		RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID, Correlation: r.CorrelationID,
	}
}

// Body is an event's bytes as received, with the stored headers.
type Body struct {
	Bytes   []byte `db:"body"`
	Headers []byte // as JSON
}

// Header decodes the stored headers.
func (b Body) Header() (h http.Header, err error) {
	if err := json.Unmarshal(b.Headers, &h); err != nil {
		return nil, fmt.Errorf("read kept headers: %w", err)
	}
	return h, nil
}
