package receipt

import (
	"fmt"
	"slices"
)

// Status is the state of a receipt.
type Status string

// The statuses. A Received receipt waits for its workflow; Processing and Retrying have one at work; NeedsReview (a
// rule says that a person must decide) and Dead (retries used up) are parked; Processed, Compensated and Ignored are
// at rest.
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

// Codes of reasons. A reason is a code, or a code, ": " and words; Postgres keeps the code apart, as reason_code. Codes
// are stored and filtered by, so they are never renamed.
const (
	// Reasons for Ignored: the source is not for events of this mode or account, or does not list the type.
	ModeNotWanted    = "mode_not_wanted"
	AccountNotWanted = "account_not_wanted"
	TypeNotWanted    = "type_not_wanted"

	// Reasons for NeedsReview before any run. UnknownMode: the event's mode is neither live nor test.
	// SuspectedReplay: the event repeats the bytes of another one, under an ID that no signature covers. IDCollision:
	// an event of another type, object or time has its ID, and both were verified for sources that want them.
	// SuspectedForgery: the sender signs only a checksum, and other bytes came first under it.
	UnknownMode      = "unknown_mode"
	SuspectedReplay  = "suspected_replay"
	IDCollision      = "id_collision"
	SuspectedForgery = "suspected_forgery"

	// Reasons for NeedsReview after a start. RunEnded: the run ended without finishing the receipt. RunStuck: no
	// worker can continue the run. AnotherRun: Temporal's run of the event is not this receipt's. StartRefused:
	// Temporal does not take the start.
	RunEnded   = "run_ended"
	RunStuck   = "run_stuck"
	AnotherRun = "another_run"

	StartRefused = "start_refused"

	// Dismissed, a reason for Ignored and Processed: a person decided that nothing shall be done.
	Dismissed = "dismissed"

	// Reasons for Retrying. SinkOut: a sink does not answer; the words begin with its name. SinkBusy: all places at a
	// sink are taken.
	SinkOut  = "sink_out"
	SinkBusy = "sink_busy"
	// WaitsForEntry: an entry waits for the one that it refers to. Nothing is late then.
	WaitsForEntry = "waits_for_entry"

	// Paused, a reason for Retrying: a person paused the sink, and the words begin with its name. A reason for
	// Received: the source is paused.
	Paused = "paused"
)

// Statuses lists every status in the order of a receipt's life.
var Statuses = []Status{Received, Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored}

// next is the graph: what may follow each status. Staying is always allowed and not listed.
var next = map[Status][]Status{
	// A short run can end before anybody has recorded that it began, so every outcome of a run may
	// follow directly. Ignored: no flow is written for the type, or its source does not map the connected account.
	Received:   {Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Processing: {Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Retrying:   {Processing, NeedsReview, Dead, Processed, Compensated, Ignored},
	// Parked with a run: the run goes on after a person's decision. Parked without one (a
	// suspected replay, an unreadable body): a person sends it on its way, or dismisses it.
	NeedsReview: {Received, Processing, Retrying, Dead, Processed, Compensated, Ignored},
	Dead:        {Received, Processing, Retrying, NeedsReview, Processed, Compensated, Ignored},
	// A reset or a replay reopens a receipt that is at rest; its run may park like any other. The receipt is received
	// while a replay waits for its start.
	Processed:   {Received, Processing, Retrying, NeedsReview, Dead, Compensated},
	Compensated: {Received, Processing, Retrying, NeedsReview, Dead, Processed},
	// "Run it after all."
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
