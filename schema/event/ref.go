// Package event identifies events.
package event

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Ref identifies an event and its receipt. A run and each of its effects have the Ref of the receipt. Workflow
// histories store it, so it contains no payload and no personal data.
type Ref struct {
	ReceiptID string
	Provider  string
	// Account is the provider account (a connected account), or "" for the provider's own.
	Account string `json:",omitempty"`
	// Mode is "live" or "test".
	Mode    string
	EventID string
	// RelayOf is set if the receipt only relays the event to its own source's consumers: the ID of the event, which
	// another source's receipt runs.
	RelayOf string `json:",omitempty"`
	Type    string
	// ObjectID is the provider's ID of the object that the event is about, or "" if unknown.
	ObjectID string `json:",omitempty"`
	// Correlation is the business ID that the source takes from the delivery, or else the ID of the request.
	Correlation string `json:",omitempty"`
}

// Attrs returns the event's attributes for [slog.Logger.LogAttrs], followed by more. Every log line uses the same keys.
func (r Ref) Attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("provider", r.Provider), slog.String("type", r.Type),
		slog.String("event_id", r.EventID), slog.String("object_id", r.ObjectID),
		slog.String("receipt_id", r.ReceiptID), slog.String("correlation_id", r.Correlation)}, more...)
}

// Log is [Ref.Attrs] as arguments for the other methods of a [slog.Logger].
func (r Ref) Log(more ...any) []any {
	list := make([]any, 0, 6+len(more))
	for _, a := range r.Attrs() {
		list = append(list, a)
	}
	return append(list, more...)
}

// ReceivedAt returns when the receipt was made, to the millisecond, from its ID (RFC 9562, section 5.7). It returns the
// zero time if the ID has another form.
func (r Ref) ReceivedAt() time.Time {
	id, err := uuid.Parse(r.ReceiptID)
	if err != nil || id.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(id.Time().UnixTime())
}
