package tables

import (
	"strconv"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Status is how pawl stands, part by part; a part with nothing to show is a heading alone.
func Status(r *report.Status, now time.Time) [][][]string {
	parked := [][]string{{"PARKED", "REASON", "EVENTS", "OLDEST", "MONEY"}}
	for _, c := range r.Parked {
		parked = append(parked, []string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), output.Age(c.Oldest, now),
			operator.Sums(c.Money)})
	}
	tasks := [][]string{{"OPEN TASKS", "MODE", "TASKS", "OLDEST", "DUE BY"}}
	for _, t := range r.Tasks {
		tasks = append(tasks, []string{t.Kind, t.Mode, strconv.Itoa(t.Tasks), output.Age(t.Oldest, now),
			output.Date(t.DueBy)})
	}
	concerns := [][]string{{"ALSO", "WHICH", "FOR", "WHAT"}}
	for _, c := range r.Concerns {
		lasts := ""
		if c.Since != nil {
			lasts = output.Age(*c.Since, now)
		}
		concerns = append(concerns, []string{c.What, c.Name, lasts, c.Says})
	}
	return [][][]string{parked, Pending(r.Pending), tasks, Waiting(r.Waiting, now), Notices(r.Notices, now), concerns,
		Sinks(r.Sinks), Jobs(r.Jobs)}
}

// Waiting counts the events that go on by themselves.
func Waiting(causes []timeline.Cause, now time.Time) [][]string {
	rows := [][]string{{"GOES ON", "REASON", "EVENTS", "OLDEST"}}
	for _, c := range causes {
		rows = append(rows, []string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), output.Age(c.Oldest, now)})
	}
	return rows
}
