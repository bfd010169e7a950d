package tables

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Status is how pawl stands, part by part; a part with nothing to show is a heading alone.
func Status(r *report.Status, now time.Time) [][][]string {
	parked := output.Rows("PARKED|REASON|EVENTS|OLDEST|MONEY", r.Parked, func(c timeline.Cause) []any {
		return []any{c.Status, c.ReasonCode, c.Events, output.Age(c.Oldest, now), operator.Sums(c.Money)}
	})
	tasks := output.Rows("OPEN TASKS|MODE|TASKS|OLDEST|DUE BY", r.Tasks, func(t account.Count) []any {
		return []any{t.Kind, t.Mode, t.Tasks, output.Age(t.Oldest, now), t.DueBy}
	})
	concerns := output.Rows("ALSO|WHICH|FOR|WHAT", r.Concerns, func(c report.Concern) []any {
		lasts := ""
		if c.Since != nil {
			lasts = output.Age(*c.Since, now)
		}
		return []any{c.What, c.Name, lasts, c.Says}
	})
	return [][][]string{parked, Pending(r.Pending), tasks, Waiting(r.Waiting, now), Notices(r.Notices, now), concerns,
		Sinks(r.Sinks), Jobs(r.Jobs)}
}

// Waiting counts the events that go on by themselves.
func Waiting(causes []timeline.Cause, now time.Time) [][]string {
	return output.Rows("GOES ON|REASON|EVENTS|OLDEST", causes, func(c timeline.Cause) []any {
		return []any{c.Status, c.ReasonCode, c.Events, output.Age(c.Oldest, now)}
	})
}
