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

// Key identifies an event. Account is "" if the provider has no accounts.
type Key struct {
	Provider, Account, Mode, EventID string
}

// Delivery is one authentic request with its events, as the ingress stores it.
type Delivery struct {
	Source   string
	Provider string
	// Generic is set if Provider is used by many senders. The same bytes from another source of this provider are then
	// not a replay.
	Generic bool
	// Relays is set if the source has destinations that its events are relayed to.
	Relays     bool
	ReceivedAt time.Time
	// Secret is the label of the secret that verified the request, or [ByAPI].
	Secret string
	// Header is stored beside the body. The caller must have removed the headers that must not be stored.
	Header http.Header
	// Transmission is set if the sender signs a transmission ID instead of the bytes. If an earlier request had the
	// same ID and other bytes, Insert parks the events.
	Transmission Transmission
	Events       []New
}

// ByAPI is used instead of the label of a secret for events that were read from the provider's API.
const ByAPI = "(api)"

// Identity defines what identifies an event. It determines whether a delivery is a duplicate, a replay or another
// event.
//
// If the signature does not cover the whole key of an event, anybody who resends the signed bytes can change the key.
// The same bytes under another key are therefore a suspected replay; see [SuspectedReplay].
type Identity string

const (
	// ByID means that the key is signed. A delivery with the same key and other bytes is a duplicate, with the
	// exception of [IDCollision].
	ByID Identity = "id"
	// ByBytes means that the key is unsigned and that key and bytes together identify an event. A delivery with the
	// same key and other bytes is another event. Its receipt gets the ID "ID~HASH", with 16 digits of the hash of its
	// bytes.
	ByBytes Identity = "bytes"
	// ByIDOrBytes means that the key is not or only partly signed. A delivery with the same key and other bytes is
	// treated as for ByID, because the bytes of one event may differ from attempt to attempt.
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
	// Correlation is the ID of the business process that the source reads from the event. If the source configures
	// none, all events of one request get the same ID.
	Correlation string
	// Occurrence is the provider's ID of the event, and Hook the provider's ID of the webhook subscription. They are
	// set if the provider sends them in addition to an ID of the delivery.
	Occurrence, Hook string
	// RelayOnly is set if pawl only relays the event to the destinations of its source.
	RelayOnly  bool
	OccurredAt time.Time // zero if the provider does not send it
	// Status is Received, or else Ignored or NeedsReview together with a Reason.
	Status Status
	Reason string
	// Body contains the bytes of this event as received.
	Body []byte
	// Signed, if not nil, is compared instead of Body. It is the signed content if one signature fits several forms of
	// a body. It is the constant part if the body differs from attempt to attempt.
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
	// EventID is the event ID of the receipt: the event's own ID, or an ID made by [ApartID].
	EventID string
	// Duplicate is true if the event already had a receipt. ReceiptID and Status then describe that receipt.
	Duplicate bool
	Status    Status
	// Reason explains the Status if it is not Received.
	Reason string
	// Uncounted is the error that prevented counting the duplicate, or nil. The event is stored in both cases.
	Uncounted error

	// other: another event has the ID of this event. wanted: the event takes over the receipt that has its ID. crowded:
	// the event was left out of its flush. open: the receipt with its ID has not been read yet. again: the event is a
	// duplicate that is not counted yet.
	other, wanted, crowded, open, again bool
}

// Pending is a receipt without a started workflow. It contains everything that is needed to start it, and no payload.
type Pending struct {
	event.Ref
	Source     string
	ReceivedAt time.Time
	// WorkflowID is the ID to start the workflow with. "" means the ID that belongs to the event.
	WorkflowID string
	// Rerun is set if a person requested another run.
	Rerun *Rerun
	// Trace is the traceparent of the delivery, or "" if it was not traced or its body is erased.
	Trace string
}

// Traced returns ctx with the trace of the delivery.
func (p Pending) Traced(ctx context.Context) context.Context { return event.WithTrace(ctx, p.Trace) }

// Receipt is the durable record of one event.
type Receipt struct {
	ID string
	// Source is the source that verified the bytes with its secret. The event runs with the configuration of this
	// source.
	Source   string
	Provider string
	Account  string
	Mode     string
	EventID  string
	// RelayOf is set if this receipt only relays the event to the destinations of its source. It is the ID of the
	// event. The receipt of another source runs the event.
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
	// Replayed is set if the ID is unsigned and another event has the same bytes.
	Replayed   bool
	Status     Status
	Reason     string
	ReasonCode string
	WorkflowID string
	LastError  string
	Duplicates int
	UpdatedAt  time.Time
	// BeforeEffects is set if the event is older than the start of effects in its mode.
	BeforeEffects bool
}

// Ref returns the reference to the event of the receipt.
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
		return nil, fmt.Errorf("read the stored headers: %w", err)
	}
	return h, nil
}
