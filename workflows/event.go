package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/event"
)

// EventInput is what every flow starts with: which event it is for, and why. It stands in histories, so fields can be
// added and none removed.
type EventInput struct {
	event.Ref
	// Due is set for what the clock does; the event is then the one that made it due.
	Due *DueInput `json:",omitempty"`
	// Replay is set where a person has asked for the run, after an earlier one had ended.
	Replay *ReplayInput `json:",omitempty"`
}

// ReplayInput says who has asked for a run, after an earlier one had ended, and why.
type ReplayInput = activities.Replay

// Summary is what Temporal's pages show of a run, beside its ID. They read it as Markdown.
func (in EventInput) Summary() string {
	if in.Due != nil {
		return prose("due for " + printable(in.Due.Account, "") + ", after " + in.Type)
	}
	return prose(strings.TrimSpace(in.Type + " " + in.ObjectID))
}

// Flow returns the workflow type of the event, or of the clock's run.
func (in EventInput) Flow() string {
	switch {
	case in.Due != nil:
		return ClockFlow
	case in.RelayOf != "":
		return relayFlow
	}
	if flow, fetched := reconciledFlows[in.Type]; fetched {
		return flow
	}
	return Route(in.Provider, in.Type)
}

// OnlyRelays reports whether the event is delivered to consumers, and nothing else is done about it.
func (in EventInput) OnlyRelays() bool { return in.Flow() == relayFlow }

// maxID is what Temporal's SQL schema holds in a workflow ID column.
const maxID = 255

// ID returns the workflow ID of the event: "stripe:evt_123", with a connected account between
// ("stripe:acct_9:evt_123"). No two events have the same. A run of the clock has one that begins with "due:".
//
// It is printable ASCII, since Temporal's client sends it as a header and starts nothing under another. Other bytes of
// a provider's names for events and accounts are percent-encoded. An ID that Temporal could not store is replaced by
// its hash.
//
// Mode is not part of it, because a provider's event IDs differ between modes. Should one ID
// come in both modes after all, the second event parks, and a person has it run as [EventInput.AnewID].
func (in EventInput) ID() string {
	if in.Due != nil {
		return in.Due.id(in.Mode)
	}
	return bounded(in.Provider + ":" + in.name())
}

// name tells the event from all others of its provider and mode: "evt_123", or "acct_9:evt_123".
func (in EventInput) name() string {
	// If the event has no account, the part of its ID before a colon would read as one: an empty account stands
	// between.
	if in.Account == "" && !strings.Contains(in.EventID, ":") {
		return printable(in.EventID, "")
	}
	return printable(in.Account, ":") + ":" + printable(in.EventID, "")
}

// AnewID returns the workflow ID of an event that is not run under its plain ID, because the run there is of another
// receipt: of the same event ID in the other mode, or of a receipt that is not there any more.
func (in EventInput) AnewID() string { return bounded(in.ID() + ":" + in.ReceiptID) }

// printable returns s with each byte percent-encoded that is not printable ASCII, stands in escaped or
// is the percent sign itself: from different strings come different ones.
func printable(s, escaped string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '%' || strings.IndexByte(escaped, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func bounded(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}
