// Package event names events.
package event

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Ref names an event and the receipt that holds it. A run and each of its effects carry it as the receipt has it. It
// stands in workflow histories: it has no payload and no personal data.
type Ref struct {
	ReceiptID string
	Provider  string
	// Account is the provider-side account (a connected account), "" for the provider's own.
	Account string `json:",omitempty"`
	// Mode is "live" or "test".
	Mode    string
	EventID string
	// RelayOf is the ID of an event that another source's receipt runs, if this one only relays it to its own source's
	// consumers; else "".
	RelayOf string `json:",omitempty"`
	Type    string
	// ObjectID is the provider's ID of the object that the event is about, "" if it is not known.
	ObjectID string `json:",omitempty"`
	// Correlation is what the source says to be the ID of the business for it; else that of the request.
	Correlation string `json:",omitempty"`
}

// Attrs returns the event's attributes for [slog.Logger.LogAttrs], followed by more. Their keys are the same in every log
// line.
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

// ReceivedAt is when the receipt was made, to the millisecond: its ID says so (RFC 9562, section 5.7). It is zero for a
// receipt that has no such ID.
func (r Ref) ReceivedAt() time.Time {
	id, err := uuid.Parse(r.ReceiptID)
	if err != nil || id.Version() != 7 {
		return time.Time{}
	}
	return time.Unix(id.Time().UnixTime())
}
