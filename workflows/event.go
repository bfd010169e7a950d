package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// EventInput is what every flow starts with: references and routing words, never a payload and
// never personal data. Fields can be added, none removed: it stands in histories.
type EventInput struct {
	ReceiptID string
	Provider  string
	// Account is the provider-side account (a Connect account), "" for the provider's own.
	Account string
	Mode    string
	EventID string
	Type    string
	Object  string
}

// maxID is what Temporal's SQL schema holds in a workflow ID column.
const maxID = 255

// ID returns the workflow ID of the event: "stripe:evt_123", with a connected account between
// ("stripe:acct_9:evt_123"). No two events have the same.
//
// It is printable ASCII, since Temporal's client sends it as a header and starts nothing under
// another; the rest of what a provider calls its events and accounts is percent-encoded. An ID that
// Temporal could not store is replaced by its hash.
//
// Mode is not part of it, because a provider's event IDs differ between modes. Should one ID
// come in both modes after all, the dispatcher starts the second as [EventInput.ModeID].
func (in EventInput) ID() string {
	return bounded(in.Provider + ":" + in.name())
}

// name tells the event from all others of its provider and mode: "evt_123", or "acct_9:evt_123".
func (in EventInput) name() string {
	// Without an account, what stands before a colon in the event's ID would read as one: an empty
	// account stands between.
	if in.Account == "" && !strings.Contains(in.EventID, ":") {
		return printable(in.EventID, "")
	}
	return printable(in.Account, ":") + ":" + printable(in.EventID, "")
}

// nameUnder returns the name that keys of a run under workflowID have. A run that was started when account and event ID
// were not encoded yet ("calendly:https://…") shows it by its ID, and keeps the keys that stand in its history and in
// the ledger: under others it could not go on, and a reset would deliver again.
func (in EventInput) nameUnder(workflowID string) string {
	before := in.EventID
	if in.Account != "" {
		before = in.Account + ":" + before
	}
	if before != in.name() && workflowID == bounded(in.Provider+":"+before) {
		return before
	}
	return bounded(in.name())
}

// ModeID returns the workflow ID of an event whose plain ID belongs to the same event ID of the
// other mode.
func (in EventInput) ModeID() string { return bounded(in.ID() + ":" + in.Mode) }

// AnewID returns the workflow ID of an event that is run anew, because the run under its plain ID is of a
// receipt that is not there any more.
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

// flows says which workflow runs which event type, per provider. Two types of one fact name one
// flow: their effects meet at the same ledger keys.
var flows = map[string]map[string]string{
	"stripe": {
		"invoice.paid":              "InvoicePaid",
		"invoice.payment_succeeded": "InvoicePaid",
	},
}

// relayFlow is the workflow type of events that have no flow of their own.
const relayFlow = "Relay"

// Route returns the workflow type for an event type of a provider: the flow that is written for it,
// else Relay, which asks the source's configuration where the event goes. An event with a flow of its
// own is not relayed besides.
func Route(provider, eventType string) (workflow string) {
	if own, ok := flows[provider][eventType]; ok {
		return own
	}
	return relayFlow
}

// Written reports whether a flow is written for an event type of a provider.
func Written(provider, eventType string) bool {
	_, ok := flows[provider][eventType]
	return ok
}
