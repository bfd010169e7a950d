package receipt

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/schema/event"
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
	Generic bool
	// Relays says that the source has consumers of its own.
	Relays     bool
	ReceivedAt time.Time
	// Secret is the label of the secret that admitted the request, or [ByAPI].
	Secret string
	// Correlation ties what came in one request together.
	Correlation string
	// Header is kept beside the body. The caller has taken out what must not be stored.
	Header http.Header
	// Transmission, where it is set, has the events parked when other bytes came before under its ID.
	Transmission Transmission
	Events       []New
}

// ByAPI stands for the secret of what no secret has admitted: the provider's API has shown it.
const ByAPI = "(api)"

// Identity says what identifies an event, which decides what is a duplicate, a replay or an event of its own.
//
// Where the signature does not cover an event's whole key, whoever sends signed bytes again can change it. The same
// bytes under another key are then a suspected replay. One is kept, parked and not run; any more are counted there as
// duplicates.
type Identity string

const (
	// ByID says that the key is signed. Other bytes under it are a duplicate, but see [IDCollision].
	ByID Identity = "id"
	// ByBytes says that it is not, and identifies an event only together with the bytes. Other bytes under it are another
	// event, which is held under an ID of its own, "<ID>~" and 16 digits of its hash.
	ByBytes Identity = "bytes"
	// ByIDOrBytes says that it is not, or not all of it. Other bytes under it are as with ByID: those of one event may
	// differ.
	ByIDOrBytes Identity = "id_or_bytes"
)

// New is one event of a delivery. Its strings are valid UTF-8 without NUL: Postgres' text holds
// nothing else, and the ingress has seen to it.
type New struct {
	Account    string
	Mode       string
	EventID    string // 1 to 200 bytes
	Identity   Identity
	Type       string
	Object     string
	APIVersion string
	OccurredAt time.Time // zero where the provider does not tell
	// Status is Received, or Ignored or NeedsReview with a Reason.
	Status Status
	Reason string
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

	// other is set on an event whose ID another one holds; wanted on one that takes over what holds it; crowded on one
	// that was left out of its flush.
	other, wanted, crowded bool
}

// Pending is a receipt that waits for its workflow: what a start needs, and no payload.
type Pending struct {
	event.Ref
	Source     string
	ReceivedAt time.Time
	// WorkflowID is what to start it under; "" is the event's own.
	WorkflowID string
	// Rerun is set where a person has asked for another run.
	Rerun *Rerun
}

// Receipt is the durable record of one event.
type Receipt struct {
	ID string
	// Source is the one that the event is run for: its secret has verified the bytes.
	Source   string
	Provider string
	Account  string
	Mode     string
	EventID  string
	// RelayOf is the ID of an event that another source's receipt runs, and this one only relays; else "".
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
		RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID,
	}
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
