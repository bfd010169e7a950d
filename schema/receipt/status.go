package receipt

import (
	"fmt"
	"slices"
)

// Status is the state of a receipt.
type Status string

// The statuses. A Received receipt waits for its workflow. Processing and Retrying receipts have a running workflow.
// NeedsReview (a rule requires a person's decision) and Dead (retries used up) are parked. Processed, Compensated and
// Ignored are final.
const (
	Received    Status = "received"
	Processing  Status = "processing"
	Retrying    Status = "retrying"
	NeedsReview Status = "needs_review"
	Dead        Status = "dead"
	Processed   Status = "processed"
	Compensated Status = "compensated"
	Ignored     Status = "ignored"
)

// Codes of reasons. A reason is a code, or a code, ": " and words. Postgres stores the code separately as reason_code.
// Codes are stored and used in filters, so they are never renamed.
const (
	// Reasons for Ignored: the source is not for events of this mode or account, or does not list the type.
	ModeNotWanted    = "mode_not_wanted"
	AccountNotWanted = "account_not_wanted"
	TypeNotWanted    = "type_not_wanted"

	// Reasons for NeedsReview before any run. UnknownMode: the event's mode is neither live nor test. SuspectedReplay:
	// the event repeats the bytes of another one under an unsigned ID, and has effects of its own, or the topic of the
	// other one. IDCollision: an event of another type, object or time has its ID, and both were verified for sources
	// that want them. SuspectedForgery: the sender signs only a checksum, and other bytes came first with the same
	// checksum.
	UnknownMode      = "unknown_mode"
	SuspectedReplay  = "suspected_replay"
	IDCollision      = "id_collision"
	SuspectedForgery = "suspected_forgery"

	// Reasons for NeedsReview after a start. RunEnded: the run ended without finishing the receipt. RunStuck: no worker
	// can continue the run. AnotherRun: Temporal's run of the event does not belong to this receipt. StartRefused:
	// Temporal rejects the start.
	RunEnded   = "run_ended"
	RunStuck   = "run_stuck"
	AnotherRun = "another_run"

	StartRefused = "start_refused"

	// Dismissed, a reason for Ignored and Processed: a person decided to do nothing.
	Dismissed = "dismissed"

	// Reasons for Retrying. SinkOut: a sink does not answer; the words begin with its name. SinkBusy: a sink already
	// has its maximum of concurrent calls.
	SinkOut  = "sink_out"
	SinkBusy = "sink_busy"
	// WaitsForEntry: an entry waits for the entry that it refers to. It is not overdue.
	WaitsForEntry = "waits_for_entry"

	// UnknownPrice, a reason for Processed: the event waits for the answer to a task of this kind about its account.
	UnknownPrice = "unknown_price"

	// Paused, a reason for Retrying: a person paused the sink, and the words begin with its name. A reason for
	// Received: the source is paused.
	Paused = "paused"
)

// Statuses lists every status in the order of a receipt's life.
var Statuses = []Status{Received, Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored}

// next is the graph: the statuses that may follow each status. A status may always follow itself.
var next = map[Status][]Status{
	// A short run can end before its start is recorded, so every outcome of a run may follow directly. Ignored: the
	// type has no flow, or its source does not map the connected account.
	Received:   {Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Processing: {Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Retrying:   {Processing, NeedsReview, Dead, Processed, Compensated, Ignored},
	// Parked with a run: the run continues after a person's decision. Parked without a run (a suspected replay, an
	// unreadable body): a person starts a run, or dismisses the event.
	NeedsReview: {Received, Processing, Retrying, Dead, Processed, Compensated, Ignored},
	Dead:        {Received, Processing, Retrying, NeedsReview, Processed, Compensated, Ignored},
	// A reset or a replay reopens a final receipt; its run may park like any other. The receipt is received while a
	// replay waits for its start.
	Processed:   {Received, Processing, Retrying, NeedsReview, Dead, Compensated},
	Compensated: {Received, Processing, Retrying, NeedsReview, Dead, Processed},
	// A person starts the event although it was ignored.
	Ignored: {Received},
}

// TransitionError is a status change that the graph does not allow.
type TransitionError struct{ From, To Status }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a receipt that is %s cannot become %s", e.From, e.To)
}

// Next returns nil if a receipt may go from one status to another. Every write of a status, here and in SQL, follows
// it.
func Next(from, to Status) error {
	if _, known := next[from]; known && from == to {
		return nil
	}
	if slices.Contains(next[from], to) {
		return nil
	}
	return &TransitionError{From: from, To: to}
}

// MayPrecede returns the statuses that to may follow, itself included.
func MayPrecede(to Status) (from []string) {
	for _, f := range Statuses {
		if Next(f, to) == nil {
			from = append(from, string(f))
		}
	}
	return from
}
