// Package event defines the reference that identifies an event in runs, effects and logs.
package event

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Ref identifies an event and its receipt. A run of the receipt and the run's effects have the same Ref. Workflow
// histories store it, so it contains no payload and no personal data.
type Ref struct {
	ReceiptID string
	Provider  string
	// Account is the connected account at the provider, or "" for the platform account.
	Account string `json:",omitempty"`
	// Mode is "live" or "test".
	Mode    string
	EventID string
	// RelayOf is set if the receipt only relays the event to the destinations of its source. It is the ID of the event.
	// The receipt of another source runs the event.
	RelayOf string `json:",omitempty"`
	Type    string
	// ObjectID is the provider's ID of the object that the event is about, or "" if unknown.
	ObjectID string `json:",omitempty"`
	// Correlation is the business ID that the source reads from the delivery, or else the ID of the request.
	Correlation string `json:",omitempty"`
}

// Attrs returns the event's attributes for [slog.Logger.LogAttrs], followed by more. Every log line uses the same keys.
func (r Ref) Attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("provider", r.Provider), slog.String("type", r.Type),
		slog.String("event_id", r.EventID), slog.String("object_id", r.ObjectID),
		slog.String("receipt_id", r.ReceiptID), slog.String("correlation_id", r.Correlation)}, more...)
}

// Log returns [Ref.Attrs] in the form that [slog.Logger.Info] accepts.
func (r Ref) Log(more ...any) []any {
	list := make([]any, 0, 6+len(more))
	for _, a := range r.Attrs() {
		list = append(list, a)
	}
	return append(list, more...)
}

// ReceivedAt returns when the receipt was made, to the millisecond, from its ID (RFC 9562, section 5.7). It returns the
// zero time if the ID is not a UUID of version 7.
func (r Ref) ReceivedAt() time.Time {
	id, err := uuid.Parse(r.ReceiptID)
	if err != nil || id.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(id.Time().UnixTime())
}
