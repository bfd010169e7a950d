package fold

import "time"

// The states of a task.
const (
	TaskOpen      = "open"
	TaskDone      = "done"
	TaskCancelled = "cancelled"
)

// The kinds of tasks that the facts alone open and close.
const (
	// TaskDispute asks a person to submit evidence. TaskInquiry asks for an answer before a dispute starts. TaskWarning
	// asks to refund a charge that the card issuer suspects as fraud.
	TaskDispute = "dispute"
	TaskInquiry = "inquiry"
	TaskWarning = "fraud_warning"
	// TaskCorrection asks to refund the money of a withheld order, or to grant the order again.
	TaskCorrection = "correction"
	// TaskStuck asks to correct a draft invoice that the provider cannot finalize. The provider collects no payment
	// until then.
	TaskStuck = "finalization_failed"
)

// Task is the state that a task should have according to the facts: open or cancelled. If a person has completed the
// task, it stays completed.
type Task struct {
	Kind, Object, Account, State, Title string
	// Money is the amount that the task is about, or zero.
	Money
	// DueBy is the deadline, for example the provider's date for evidence. It is zero if the task has no deadline.
	DueBy time.Time
}

// taskWhile returns a task about an object. The task is open if open is true, otherwise cancelled.
func taskWhile(open bool, kind string, about Ref, title string) Task {
	t := Task{Kind: kind, Object: about.ID, Account: about.Account, State: TaskCancelled, Title: title}
	if open {
		t.State = TaskOpen
	}
	return t
}
