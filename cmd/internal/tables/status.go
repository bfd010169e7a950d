package tables

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Status returns the state of pawl as several tables. A table without rows contains only its headings.
func Status(r *report.Status, now time.Time) []output.Table {
	return []output.Table{Conditions(r.Conditions, now), Withheld(r.Withheld), Pending(r.Pending),
		Waiting(r.Waiting, now), Sinks(r.Sinks), Jobs(r.Jobs)}
}

// Conditions lists the current problems.
func Conditions(list []report.Condition, now time.Time) output.Table {
	return output.Rows("PROBLEM|SEVERITY|FOR|MONEY|NOTIFIED|WHAT", list, func(c report.Condition) []any {
		lasts, notified := "", ""
		if !c.Since.IsZero() {
			lasts = output.Age(c.Since, now)
		}
		if c.NotifiedAt != nil {
			notified = output.Age(*c.NotifiedAt, now) + " ago"
		}
		return []any{c.Kind(), output.Badge(c.Severity), lasts, decide.Sums(c.Money), notified, Described(c)}
	})
}

// Described returns the message of a condition, followed by its detail.
func Described(c report.Condition) string {
	return output.Clean(c.Message) + output.WithReason(output.Clean(c.Detail))
}

// Onsets lists when effects start in each mode.
func Onsets(list []withheld.From) output.Table {
	return output.Rows("MODE|EFFECTS|CHANGED|BY", list, func(f withheld.From) []any {
		return []any{output.Badge(f.Mode), EffectsFrom(f), f.ChangedAt, f.ChangedBy}
	})
}

// EffectsFrom describes when effects start in a mode.
func EffectsFrom(f withheld.From) string {
	if f.At == nil {
		return "off"
	}
	return "of events since " + output.Time(*f.At)
}

// Withheld lists the numbers of withheld effects.
func Withheld(sums []withheld.Sum) output.Table {
	return output.Rows("WITHHELD|MODE|EFFECTS|EVENTS|MONEY", sums, func(s withheld.Sum) []any {
		return []any{s.Kind, output.Badge(s.Mode), s.Effects, s.Events, decide.Sums(s.Money)}
	})
}

// Waiting lists, by cause, the number of events that continue without a person.
func Waiting(causes []timeline.Cause, now time.Time) output.Table {
	return output.Rows("GOES ON|REASON|EVENTS|OLDEST", causes, func(c timeline.Cause) []any {
		return []any{output.Badge(c.Status), c.ReasonCode, c.Events, output.Age(c.Oldest, now)}
	})
}
