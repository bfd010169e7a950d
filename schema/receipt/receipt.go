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

// Delivery is one authentic request with the events that it carries, as the ingress hands it over.
type Delivery struct {
	Source   string
	Provider string
	// Generic marks a Provider that stands for many senders: the same bytes from another source of it are no replay.
	Generic bool
	// Relays says that the source has consumers of its own.
	Relays     bool
	ReceivedAt time.Time
	// Secret is the label of the secret that admitted the request, or [ByAPI].
	Secret string
	// Header is kept beside the body. The caller has removed the headers that must not be stored.
	Header http.Header
	// Transmission, if set, parks the events when other bytes came before under its ID.
	Transmission Transmission
	Events       []New
}

// ByAPI takes the place of the secret's label for events that no secret admitted, but the provider's API showed.
const ByAPI = "(api)"

// Identity says how an event is identified. That decides whether a delivery is a duplicate, a replay or an event of
// its own.
//
// If the signature does not cover an event's whole key, anybody who sends signed bytes again can change the key. The
// same bytes under another key are then a suspected replay. One replay is kept and parked, not run; further ones
// count as its duplicates.
type Identity string

const (
	// ByID says that the key is signed. Other bytes under it are a duplicate, but see [IDCollision].
	ByID Identity = "id"
	// ByBytes says that the key is not signed, and identifies an event only together with the bytes. Other bytes
	// under it are another event, whose receipt has an ID of its own: "<ID>~" and 16 digits of its hash.
	ByBytes Identity = "bytes"
	// ByIDOrBytes says that the key is not signed, or only in part. Other bytes under it are treated as with ByID:
	// the bytes of one event may differ.
	ByIDOrBytes Identity = "id_or_bytes"
)

// New is one event of a delivery. Its strings must be valid UTF-8 without NUL: Postgres' text holds nothing else, and
// the ingress sees to it.
type New struct {
	Account    string
	Mode       string
	EventID    string // 1 to 200 bytes
	Identity   Identity
	Type       string
	Object     string
	APIVersion string
	// Correlation is the source's own ID for what the event belongs to; without one, the same for all events of one
	// request.
	Correlation string
	OccurredAt  time.Time // zero where the provider does not tell
	// Status is Received, or Ignored or NeedsReview with a Reason.
	Status Status
	Reason string
	// Body holds the event's own bytes, kept as they are.
	Body []byte
	// Signed replaces Body wherever bytes are compared; nil means Body. It is set to the signed content if one
	// signature fits several spellings of a body, or to the part that is the same in every attempt.
	Signed []byte
}

func (n *New) hash() [sha256.Size]byte {
	if n.Signed != nil {
		return sha256.Sum256(n.Signed)
	}
	return sha256.Sum256(n.Body)
}

// Outcome says what became of one event of a delivery. When Insert returned it, the event is
// committed.
type Outcome struct {
	ReceiptID string
	// EventID is the receipt's event ID: the event's own, or one made by [ApartID].
	EventID string
	// Duplicate is true if the event had a receipt already; ReceiptID and Status are then of that receipt.
	Duplicate bool
	Status    Status
	// Reason says why Status is not Received.
	Reason string
	// Uncounted is why the duplicate could not be counted, nil if it was. The event is safe all the same.
	Uncounted error

	// other: another event has this event's ID. wanted: the event takes over the receipt of its ID. crowded: the
	// event was left out of its flush. open: its receipt was not looked at yet. again: the duplicate is not counted
	// yet.
	other, wanted, crowded, open, again bool
}

// Pending is a receipt that waits for its workflow. It has all that a start needs, and no payload.
type Pending struct {
	event.Ref
	Source     string
	ReceivedAt time.Time
	// WorkflowID is the ID to start the workflow under; "" means the event's own.
	WorkflowID string
	// Rerun is set if a person asked for another run.
	Rerun *Rerun
	// Trace is the traceparent of the delivery, "" where it was not traced, or its body is gone.
	Trace string
}

// Traced returns ctx as part of the delivery's trace.
func (p Pending) Traced(ctx context.Context) context.Context { return event.WithTrace(ctx, p.Trace) }

// Receipt is the durable record of one event.
type Receipt struct {
	ID string
	// Source is the source whose secret verified the bytes. The event runs for it.
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
	Status        Status
	Reason        string
	ReasonCode    string
	WorkflowID    string
	LastError     string
	Duplicates    int
	UpdatedAt     time.Time
}

// Ref names the receipt's event.
func (r Receipt) Ref() event.Ref {
	return event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode, EventID: r.EventID,
		RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID, Correlation: r.CorrelationID,
	}
}

// Body is an event's bytes as received, with the headers that were kept.
type Body struct {
	Bytes   []byte `db:"body"`
	Headers []byte // as JSON
}

// Header decodes the headers that were kept, which few callers need.
func (b Body) Header() (h http.Header, err error) {
	if err := json.Unmarshal(b.Headers, &h); err != nil {
		return nil, fmt.Errorf("read kept headers: %w", err)
	}
	return h, nil
}
