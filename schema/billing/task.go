package billing

import (
	"fmt"
	"slices"
)

// The kinds of tasks that follow from facts alone: they are open for as long as the facts say so.
const (
	// TaskDispute is to hand in evidence, TaskInquiry to answer before there is a dispute, TaskWarning to refund what a
	// card's issuer suspects.
	TaskDispute = "dispute"
	TaskInquiry = "inquiry"
	TaskWarning = "fraud_warning"
)

// settledTask is what a task that follows from facts shall be: open or cancelled. What a person has done stays done.
type settledTask struct {
	Kind, Object, Account, State, Title string
}

// tasksOf returns the tasks about disputes and warnings.
func tasksOf(disputes []Dispute, warnings []Warning) (tasks []settledTask) {
	task := func(kind, object, account string, open bool, title string) {
		t := settledTask{kind, object, account, TaskCancelled, title}
		if open {
			t.State = TaskOpen
		}
		tasks = append(tasks, t)
	}
	for _, d := range disputes {
		due := ""
		if !d.EvidenceDue.IsZero() {
			due = " until " + d.EvidenceDue.UTC().Format("2006-01-02 15:04 MST")
		}
		if slices.ContainsFunc(d.Statuses, isInquiry) {
			task(TaskInquiry, d.ID, d.Account, d.AwaitsEvidence() && d.Warning(), "Answer inquiry "+d.ID+due)
		}
		if slices.ContainsFunc(d.Statuses, func(s string) bool { return !isInquiry(s) }) {
			task(TaskDispute, d.ID, d.Account, d.AwaitsEvidence() && !d.Warning(), "Hand in evidence for dispute "+d.ID+due)
		}
	}
	for _, w := range warnings {
		task(TaskWarning, w.ID, w.Account, w.Actionable, fmt.Sprintf("Charge %s is suspected as fraud: refund it, or wait for the dispute", w.Charge))
	}
	return tasks
}
