package workflows

import (
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows/markdown"
	"github.com/pawlhq/pawl/workflows/workflowid"
)

// EventInput is the input of every flow. Histories contain it, so fields can be added but not removed.
type EventInput struct {
	event.Ref
	// Due is set for a scheduled run. The event is then the event that caused the scheduled actions.
	Due *DueInput `json:",omitempty"`
	// Replay is set if a person started this run after an earlier run had ended.
	Replay *ReplayInput `json:",omitempty"`
}

// ReplayInput records who requested a replay, and why.
type ReplayInput = activities.Replay

// Summary returns the Markdown text that the Temporal UI shows for a run, beside its ID.
func (in EventInput) Summary() string {
	if in.Due != nil {
		return markdown.Text("due for " + workflowid.Escape(in.Due.Account, "") + ", after " + in.Type)
	}
	return markdown.Text(strings.TrimSpace(in.Type + " " + in.ObjectID))
}

// Flow returns the workflow type for the event or the scheduled run.
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

// OnlyRelays reports whether the event is delivered to destinations without any other effect.
func (in EventInput) OnlyRelays() bool { return in.Flow() == relayFlow }

// ID returns the workflow ID of the event: "stripe:evt_123", or "stripe:acct_9:evt_123" for a connected account. IDs
// are unique per event. The ID of a scheduled run begins with "due:".
//
// The ID is printable ASCII, because Temporal's client sends it in a header. Other bytes in the provider's IDs are
// percent-encoded. An ID that is too long for Temporal is replaced by its hash.
//
// The mode is not part of the ID, because a provider's event IDs differ between modes. If one ID arrives in both
// modes, the second event parks, and a person can run it under [EventInput.AnewID].
func (in EventInput) ID() string {
	if in.Due != nil {
		return in.Due.id(in.Mode)
	}
	return workflowid.Bound(in.Provider + ":" + in.name())
}

// name identifies the event within its provider and mode: "evt_123", or "acct_9:evt_123".
func (in EventInput) name() string {
	// If the event ID contains a colon and the event has no account, the name contains an empty account, so that no
	// part of the event ID is read as an account.
	if in.Account == "" && !strings.Contains(in.EventID, ":") {
		return workflowid.Escape(in.EventID, "")
	}
	return workflowid.Escape(in.Account, ":") + ":" + workflowid.Escape(in.EventID, "")
}

// AnewID returns the workflow ID of an event if the run with the result of ID belongs to another receipt: the event ID
// exists in both modes, or the other receipt was deleted.
func (in EventInput) AnewID() string { return workflowid.Bound(in.ID() + ":" + in.ReceiptID) }
