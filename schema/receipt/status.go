package receipt

import (
	"fmt"
	"slices"
)

// Status says where a receipt stands.
type Status string

// The statuses. Received waits for its workflow; Processing and Retrying have one at work;
// NeedsReview (a rule says that a person must decide) and Dead (retries used up) are parked;
// Processed, Compensated and Ignored are at rest.
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
	// Of what is Ignored: its source is not for events of this mode or account, or does not list the type.
	ModeNotWanted    = "mode_not_wanted"
	AccountNotWanted = "account_not_wanted"
	TypeNotWanted    = "type_not_wanted"

	// Of what is NeedsReview before any run. UnknownMode: the event says a mode that is neither live nor test.
	// SuspectedReplay: it repeats the bytes of another event, under an ID that nothing signs. IDCollision: its ID is held
	// by an event of another type, object or time, and both were verified for sources that may speak for them.
	// SuspectedForgery: its sender signs a checksum alone, and other bytes came first with it.
	UnknownMode      = "unknown_mode"
	SuspectedReplay  = "suspected_replay"
	IDCollision      = "id_collision"
	SuspectedForgery = "suspected_forgery"

	// Of what is NeedsReview because of its run. RunEnded: its run has ended and will not finish it. RunStuck: no
	// worker can go on with its run. AnotherRun: the run that Temporal has of its event is of another receipt.
	// StartRefused: Temporal does not take its start.
	RunEnded   = "run_ended"
	RunStuck   = "run_stuck"
	AnotherRun = "another_run"

	StartRefused = "start_refused"

	// Dismissed: of what is Ignored, or ends as Processed, because a person decided that nothing shall be done.
	Dismissed = "dismissed"

	// Of what is Retrying. SinkOut: its sink is out, and the words begin with the sink's name. SinkBusy: all places at
	// its sink are taken.
	SinkOut  = "sink_out"
	SinkBusy = "sink_busy"

	// Of what is Retrying, because a person has paused its sink, and the words begin with the sink's name; or of what is
	// Received, because its source is paused.
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
	// A reset or a replay reopens what is at rest, on purpose; it may park like any run. It is received
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

// Next decides whether a receipt may go from one status to another; nil means yes. Every write of
// a status, here and in SQL, follows it.
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
