package tables

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Status returns the state of pawl in parts. A part without rows is a heading alone.
func Status(r *report.Status, now time.Time) [][][]string {
	parked := output.Rows("PARKED|REASON|EVENTS|OLDEST|MONEY", r.Parked, func(c timeline.Cause) []any {
		return []any{c.Status, c.ReasonCode, c.Events, output.Age(c.Oldest, now), operator.Sums(c.Money)}
	})
	tasks := output.Rows("OPEN TASKS|MODE|TASKS|MONEY|OLDEST|DUE BY", r.Tasks, func(t account.Count) []any {
		return []any{t.Kind, t.Mode, t.Tasks, operator.Sums(t.Money), output.Age(t.Oldest, now), t.DueBy}
	})
	concerns := output.Rows("ALSO|WHICH|FOR|WHAT", r.Concerns, func(c report.Concern) []any {
		lasts := ""
		if c.Since != nil {
			lasts = output.Age(*c.Since, now)
		}
		return []any{c.What, c.Name, lasts, c.Says}
	})
	return [][][]string{parked, Withheld(r.Withheld),
		Pending(r.Pending), tasks, Waiting(r.Waiting, now), Notices(r.Notices, now), concerns,
		Sinks(r.Sinks), Jobs(r.Jobs)}
}

// Onsets lists when the effects of each mode begin.
func Onsets(list []withheld.From) [][]string {
	return output.Rows("MODE|EFFECTS|CHANGED|BY", list, func(f withheld.From) []any {
		return []any{f.Mode, EffectsFrom(f), f.ChangedAt, f.ChangedBy}
	})
}

// EffectsFrom describes when the effects of a mode begin.
func EffectsFrom(f withheld.From) string {
	if f.At == nil {
		return "off"
	}
	return "of events since " + output.Time(*f.At)
}

// Withheld counts the withheld effects.
func Withheld(sums []withheld.Sum) [][]string {
	return output.Rows("WITHHELD|MODE|EFFECTS|EVENTS|MONEY", sums, func(s withheld.Sum) []any {
		return []any{s.Kind, s.Mode, s.Effects, s.Events, operator.Sums(s.Money)}
	})
}

// Waiting counts the events that continue without a person.
func Waiting(causes []timeline.Cause, now time.Time) [][]string {
	return output.Rows("GOES ON|REASON|EVENTS|OLDEST", causes, func(c timeline.Cause) []any {
		return []any{c.Status, c.ReasonCode, c.Events, output.Age(c.Oldest, now)}
	})
}
