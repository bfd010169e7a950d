package receipt

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Key identifies an event. Account is "" where the provider has no tenants.
type Key struct {
	Provider, Account, Mode, EventID string
}

// Delivery is one authentic request with the events that it carries, as the ingress hands it over.
type Delivery struct {
	Source   string
	Provider string
	// Generic marks a Provider that is no one sender: what another source of it has sent is no replay.
	Generic    bool
	ReceivedAt time.Time
	// Secret is the label of the secret that admitted the request.
	Secret string
	// Correlation ties what came in one request together.
	Correlation string
	// Header is kept beside the body. The caller has taken out what must not be stored.
	Header http.Header
	Events []New
}

// New is one event of a delivery. Its strings are valid UTF-8 without NUL: Postgres' text holds
// nothing else, and the ingress has seen to it.
type New struct {
	Account    string
	Mode       string
	EventID    string // 1 to 200 bytes
	IDOrigin   string // body, header or hash
	Type       string
	Object     string
	APIVersion string
	OccurredAt time.Time // zero where the provider does not tell
	// Status is Received, or Ignored or NeedsReview with a Reason.
	Status Status
	Reason string
	// Unsigned marks an event whose ID, account or mode no signature covers: it stood in a header, or it was
	// made of the event's bytes because the header was left out (IDOrigin is then header or hash, never body).
	// Whoever sends signed bytes again can change such an ID, so it identifies an event only together with the
	// bytes:
	//
	//   - The same bytes under another key are a suspected replay: the event is kept, parked and not run.
	//   - Other bytes under the same ID are another event. It is held under an ID of its own, "<ID>~" and 16 digits
	//     of its hash.
	Unsigned bool
	// Restamped marks an event whose bytes may differ between attempts, because its sender writes the time of
	// sending into them, or whose ID is signed though its account or mode is not. Other bytes under its ID are
	// then a duplicate, also where it is Unsigned.
	Restamped bool
	// Body holds the event's own bytes, kept as they are.
	Body []byte
	// Signed stands for the bytes wherever bytes are compared: it is what their signature covers, where they can be
	// written otherwise under the same one, or what does not differ between attempts. nil means Body.
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
	// EventID is the ID under which the event is held: its own, unless [New] says otherwise.
	EventID string
	// Duplicate is true when the event was held already; ReceiptID and Status are then the first
	// one's.
	Duplicate bool
	Status    Status
	// Reason says why Status is not Received.
	Reason string
	// Uncounted is why the duplicate could not be entered, nil when it was. The event is safe all
	// the same; ReceiptID is then unknown.
	Uncounted error

	// other is set on a duplicate of an ID that is held with other bytes.
	other bool
}

// Pending is a receipt that waits for its workflow: what a start needs, and no payload.
type Pending struct {
	ReceiptID  string
	Provider   string
	Account    string
	Mode       string
	EventID    string
	Type       string
	ObjectID   string
	ReceivedAt time.Time
	// WorkflowID is what to start it under; "" is the event's own.
	WorkflowID string
}

// Receipt is the durable record of one event.
type Receipt struct {
	ID string
	// Source is the one that the event is run for; its first delivery may have come through another.
	Source        string
	Provider      string
	Account       string
	Mode          string
	EventID       string
	IDOrigin      string
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
	WorkflowID    string
	LastError     string
	Duplicates    int
	UpdatedAt     time.Time
}

// Body is what came in: the event's bytes as received, and the headers that were kept.
type Body struct {
	Bytes  []byte
	header []byte
}

// Header returns the headers that were kept. Few ask for them.
func (b Body) Header() (h http.Header, err error) {
	if err := json.Unmarshal(b.header, &h); err != nil {
		return nil, fmt.Errorf("read kept headers: %w", err)
	}
	return h, nil
}

// Kind says why a run exists.
type Kind string

// The kinds of runs.
const (
	Original Kind = "original"
	Replay   Kind = "replay"
	Reset    Kind = "reset"
)
