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
	// RelayOf is set if this receipt only relays the event: the ID of the event, which another source's receipt runs.
	RelayOf string `json:"relay_of,omitempty"`
	// Identity is how the event is identified: "id", "bytes", or "id_or_bytes".
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
	// Answered is set if the reason is a task, and no such task of the account is open any more.
	Answered   bool      `json:"answered,omitempty"`
	WorkflowID string    `json:"workflow_id"`
	LastError  string    `json:"last_error"`
	Duplicates int       `json:"duplicates"`
	UpdatedAt  time.Time `json:"updated_at"`
	// StartAt is when a sweep starts the run of a received event. It is nil for any other status, and while the source
	// is paused.
	StartAt *time.Time `json:"start_at,omitempty"`
	// OurAccount is the adopting company's account that the event is about. It is "" if unknown or not read yet.
	OurAccount string `json:"our_account"`
	// Amount is the event's amount in minor units of Currency; nil if the event has no amount.
	Amount   *int64 `json:"amount"`
	Currency string `json:"currency"`
	// Waits describes the receipt's parked run; nil if the receipt is not parked.
	Waits *receipt.Waits `json:"waits,omitempty"`
}

// Open returns the reason as long as it explains something that is open.
func (r Receipt) Open() string {
	if r.Answered {
		return ""
	}
	return r.Reason
}

// Filter narrows a list. An empty field matches everything.
type Filter struct {
	Status, ReasonCode, Source, Type string
	// About lists the provider's objects, including customers. Events about any of them match.
	About []string
	// Since matches events that were received at this time or later. The zero time sets no bound.
	Since time.Time
	// Until matches events that were received before this time. The zero time sets no bound.
	Until time.Time
	// OlderThan is the ID of a receipt. Only receipts before it match, which continues a list.
	OlderThan string
	// Limit is the maximum number of receipts, the newest first; 0 means 50.
	Limit int
}

const (
	defaultLimit = 50
	otherClock   = time.Minute
)

// endOfTime is later than any event.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// idAt returns an ID that sorts before every ID made at a time or later: an ID begins with its milliseconds (RFC 9562,
// version 7). IDs and receiving times come from different clocks, which differ by less than otherClock.
func idAt(at time.Time) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, at.UnixMilli()))<<16)
	return id.String()
}

// Find returns the receipts with this receipt ID, event ID (which two providers, accounts or modes may share), workflow
// ID, or the key of an effect that they claimed.
func Find(ctx context.Context, db schema.Querier, id string) ([]Receipt, error) {
	return schema.List[Receipt](ctx, db, fmt.Sprintf("find %q", id), findSQL, id)
}
