package timeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Receipt is pawl's record of the event, without its body.
type Receipt struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Provider string `json:"provider"`
	Account  string `json:"account"`
	Mode     string `json:"mode"`
	EventID  string `json:"event_id"`
	// RelayOf is set if this receipt only relays the event to the destinations of its source. It is the ID of the
	// event. The receipt of another source runs the event.
	RelayOf string `json:"relay_of,omitempty"`
	// Identity is what identifies the event: "id", "bytes", or "id_or_bytes"; see [receipt.Identity].
	Identity      string     `json:"identity"`
	Type          string     `json:"type"`
	ObjectID      string     `json:"object_id"`
	APIVersion    string     `json:"api_version"`
	OccurredAt    *time.Time `json:"occurred_at"`
	ReceivedAt    time.Time  `json:"received_at"`
	BodyHash      string     `json:"body_hash"`
	SecretLabel   string     `json:"secret_label"`
	CorrelationID string     `json:"correlation_id"`
	Status        string     `json:"status"`
	// Reason explains the status: a code, or a code, ": " and words. ReasonCode is that code, or "".
	Reason     string `json:"reason"`
	ReasonCode string `json:"reason_code"`
	// Answered is set if the reason is a task, and the account has no open task of this kind any more.
	Answered   bool      `json:"answered,omitempty"`
	WorkflowID string    `json:"workflow_id"`
	LastError  string    `json:"last_error"`
	Duplicates int       `json:"duplicates"`
	UpdatedAt  time.Time `json:"updated_at"`
	// StartAt is when a sweep starts the run of a received event. It is nil for any other status, and while the source
	// is paused.
	StartAt *time.Time `json:"start_at,omitempty"`
	// OurAccount is the account in pawl that the event is about. It is "" if the account is unknown, or if the event
	// was not read yet.
	OurAccount string `json:"our_account"`
	// Amount is the amount of the event in minor units of Currency. It is nil if the event has no amount.
	Amount   *int64 `json:"amount"`
	Currency string `json:"currency"`
	// Waits describes the parked run of the receipt. It is nil if the receipt is not parked.
	Waits *receipt.Waits `json:"waits,omitempty"`
}

// Open returns the reason, or "" if the reason is no longer relevant.
func (r Receipt) Open() string {
	if r.Answered {
		return ""
	}
	return r.Reason
}

// Filter narrows a list. An empty field matches everything.
type Filter struct {
	Status, ReasonCode, Source, Type, Mode string
	// About lists IDs of the provider's objects and customers, and invoice numbers. An event matches if it is about at
	// least one of them.
	About []string
	// Accounts lists the adopting company's accounts. Events about any of them match. Objects lists their objects: a
	// parked event without facts matches by the object in its envelope.
	Accounts, Objects []string
	// Outage is the ID of an outage. Events that it affected match. 0 means no filter.
	Outage int64
	// Since matches events that were received at this time or later. The zero time sets no bound.
	Since time.Time
	// Until matches events that were received before this time. The zero time sets no bound.
	Until time.Time
	// OlderThan is the ID of a receipt. Only older receipts match, so a caller can continue a list.
	OlderThan string
	// Limit is the maximum number of receipts, the newest first; 0 means 50.
	Limit int
}

const (
	defaultLimit = 50
	otherClock   = time.Minute
)

// idAt returns an ID that sorts before every ID created at the given time or later, because an ID begins with its time
// in milliseconds (RFC 9562, version 7). IDs and the times of receipt come from different clocks, which may differ by
// otherClock.
func idAt(at time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, at.UnixMilli()))<<16)
	return id.String()
}

// Find returns the receipts that an ID refers to. The ID can be a receipt ID, an event ID (which two providers,
// accounts or modes may share), a workflow ID, or the key of an effect that the receipt claimed.
func Find(ctx context.Context, db schema.Querier, id string) ([]Receipt, error) {
	return schema.List[Receipt](ctx, db, fmt.Sprintf("find %q", id), findSQL, id)
}
