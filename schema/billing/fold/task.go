package fold

import "time"

// The states of a task.
const (
	TaskOpen      = "open"
	TaskDone      = "done"
	TaskCancelled = "cancelled"
)

// The kinds of tasks that depend on facts alone. Such a task is open while the facts require it.
const (
	// TaskDispute is to submit evidence. TaskInquiry is to answer before a dispute starts. TaskWarning is to refund a
	// charge that the card issuer suspects as fraud.
	TaskDispute = "dispute"
	TaskInquiry = "inquiry"
	TaskWarning = "fraud_warning"
	// TaskCorrection is to refund the money of a withheld order, or to grant the order again.
	TaskCorrection = "correction"
	// TaskStuck is to correct a draft that the provider cannot finalize. Nobody collects the invoice until then.
	TaskStuck = "finalization_failed"
)

// Task is the desired state of a task that depends on facts: open or cancelled. A task that a person has done stays
// done.
type Task struct {
	Kind, Object, Account, State, Title string
	// Money is the money that the task is about. It is zero for a task without money.
	Money
	// DueBy is the deadline, for example the provider's date for evidence. It is zero if the task has no deadline.
	DueBy time.Time
}

// taskWhile returns a task about an object. It is open if is is set, otherwise cancelled.
func taskWhile(open bool, kind string, about Ref, title string) Task {
	t := Task{Kind: kind, Object: about.ID, Account: about.Account, State: TaskCancelled, Title: title}
	if open {
		t.State = TaskOpen
	}
	return t
}
