package receipt

import (
	"fmt"
	"slices"
)

// Status is the state of a receipt.
type Status string

// The statuses of a receipt. The workflow of a Received receipt is not started yet. Processing and Retrying receipts
// have a running workflow. NeedsReview and Dead receipts are parked: a rule requires a person's decision, or all
// retries failed. Processed, Compensated and Ignored are final.
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

// Codes of reasons. The reason of a receipt is a code, or a code followed by ": " and words. Postgres stores the code
// separately as reason_code. Codes are stored and used in filters, so they are never renamed.
const (
	// Reasons for Ignored: the source does not accept events of this mode, this account or this type.
	ModeIgnored    = "mode_ignored"
	AccountIgnored = "account_ignored"
	TypeIgnored    = "type_ignored"

	// Reasons for NeedsReview before any run. UnknownMode: the mode of the event is neither live nor test.
	// SuspectedReplay: the ID is unsigned and another event has the same bytes; besides, the event has effects of its
	// own or the same topic. IDCollision: another event has the same ID and another type, object or time, and both were
	// verified for sources that want them. SuspectedForgery: the sender signs only a checksum, and an earlier request
	// had the same checksum and other bytes.
	UnknownMode      = "unknown_mode"
	SuspectedReplay  = "suspected_replay"
	IDCollision      = "id_collision"
	SuspectedForgery = "suspected_forgery"

	// Reasons for NeedsReview after the start of a run. RunTerminated: the run ended without finishing the receipt.
	// WorkflowTaskFailing: no worker can continue the run. ForeignRun: the run that Temporal has under the event's
	// workflow ID belongs to another receipt. StartRefused: Temporal rejects the start.
	RunTerminated       = "run_terminated"
	WorkflowTaskFailing = "workflow_task_failing"
	ForeignRun          = "foreign_run"

	StartRefused = "start_refused"

	// Dismissed is a reason for Ignored and Processed: a person decided to do nothing.
	Dismissed = "dismissed"

	// Reasons for Retrying. SinkDown: a sink does not respond; the words begin with the name of the sink. SinkBusy: a
	// sink already handles its maximum number of concurrent calls.
	SinkDown = "sink_down"
	SinkBusy = "sink_busy"
	// WaitingForEntry: a finance entry refers to another entry that is not booked yet. The event is not overdue.
	WaitingForEntry = "waiting_for_entry"
	// WaitingForWorkflow: a workflow of the user runs. The event is not overdue. WorkflowStuck: no worker has begun the
	// workflow, or its worker fails to execute it.
	WaitingForWorkflow = "waiting_for_workflow"
	WorkflowStuck      = "workflow_stuck"

	// UnknownPrice is a reason for Processed: the account of the event has an open task of this kind.
	UnknownPrice = "unknown_price"

	// Paused is a reason for Retrying if a person paused the sink; the words begin with the name of the sink. It is a
	// reason for Received if the source is paused.
	Paused = "paused"
)

// Statuses lists all statuses in the order in which a receipt passes through them.
var Statuses = []Status{Received, Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored}

// next maps each status to the statuses that may follow it. A status may always follow itself.
var next = map[Status][]Status{
	// A short run can end before its start is recorded, so every outcome of a run may follow directly. Ignored follows
	// if the type has no flow, or if the source does not map the connected account.
	Received:   {Processing, Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Processing: {Retrying, NeedsReview, Dead, Processed, Compensated, Ignored},
	Retrying:   {Processing, NeedsReview, Dead, Processed, Compensated, Ignored},
	// If the receipt was parked by a run, the run continues after a person's decision. If it was parked without a run
	// (for example as a suspected replay), a person starts a run or dismisses the event.
	NeedsReview: {Received, Processing, Retrying, Dead, Processed, Compensated, Ignored},
	Dead:        {Received, Processing, Retrying, NeedsReview, Processed, Compensated, Ignored},
	// A reset or a replay reopens a final receipt, and its run may park like any other. The receipt is Received until
	// the replay has been started.
	Processed:   {Received, Processing, Retrying, NeedsReview, Dead, Compensated},
	Compensated: {Received, Processing, Retrying, NeedsReview, Dead, Processed},
	// A person can start an event that was ignored.
	Ignored: {Received},
}

// TransitionError is a status change that the graph does not allow.
type TransitionError struct{ From, To Status }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a receipt that is %s cannot become %s", e.From, e.To)
}

// Next returns nil if a receipt may change from one status to the other, otherwise a *[TransitionError]. Go code and
// SQL statements both follow the same graph.
func Next(from, to Status) error {
	if _, known := next[from]; known && from == to {
		return nil
	}
	if slices.Contains(next[from], to) {
		return nil
	}
	return &TransitionError{From: from, To: to}
}

// MayPrecede returns the statuses that may change to the status to. The list includes to itself.
func MayPrecede(to Status) (from []string) {
	for _, f := range Statuses {
		if Next(f, to) == nil {
			from = append(from, string(f))
		}
	}
	return from
}
