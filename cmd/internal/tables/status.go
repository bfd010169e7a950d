package tables

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/retention"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Status returns the state of pawl as several tables. A table without rows contains only its headings.
func Status(r *report.Status, now time.Time) []output.Table {
	return []output.Table{Conditions(r.Conditions, now), Withheld(r.Withheld), Pending(r.Pending),
		Waiting(r.Waiting, now), Sinks(r.Sinks), Jobs(r.Jobs), Database(r.Database), Largest(r.Database)}
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
		return []any{label.KindOf(s.Kind).Name, output.Badge(s.Mode), s.Effects, s.Events, decide.Sums(s.Money)}
	})
}

// Waiting lists, by cause, the number of events that continue without a person.
func Waiting(causes []timeline.Cause, now time.Time) output.Table {
	return output.Rows("PAWL CONTINUES|REASON|EVENTS|OLDEST", causes, func(c timeline.Cause) []any {
		return []any{output.Badge(c.Status), c.ReasonCode, c.Events, output.Age(c.Oldest, now)}
	})
}

// Failing lists the effects that pawl tries again, and the effects that may have happened.
func Failing(effects []timeline.Failing) output.Table {
	const headings = "FAILING STEP|RESULT|ACCOUNT|ABOUT|AMOUNT|ANSWER|SINCE|EVENT"
	return output.Rows(headings, effects, func(f timeline.Failing) []any {
		state, answer := "tried again", answerOf(f.Kind, f.Key, f.Error)
		if f.State == "uncertain" {
			state = f.State
		}
		return []any{label.StepOf(f.Kind, f.Key).Name, output.Badge(state), accountLink(f.Account, f.Mode),
			aboutLink(f.Number, f.Object, f.Account), Amount(f.Amount, f.Currency), answer, f.Since, eventLink(f.Event)}
	})
}

// Speeds lists how long the steps take from the receipt of an event, by kind: the median, and the 95th percentile.
func Speeds(speeds []timeline.Speed) output.Table {
	return output.Rows("STEP|TIMES|P50|P95", speeds, func(s timeline.Speed) []any {
		return []any{label.KindOf(s.Kind).Name, s.Effects, output.Seconds(s.Median), output.Seconds(s.Most)}
	})
}

// Database shows the size of the database, its growth, and the last run of retention. state may be nil.
func Database(state *retention.State) output.Table {
	const headings = "DATABASE|GROWTH A DAY|DISK FULL|RETENTION RAN|DELETED|NOTES"
	return output.Rows(headings, one(state), func(s retention.State) []any {
		growth := "known after a day"
		if s.GrowthPerDay != nil {
			growth = output.Bytes(*s.GrowthPerDay)
		}
		return []any{output.Bytes(s.Bytes), growth, s.DiskFullAt, s.LastRun.EndedAt, s.LastRun.Counts(),
			s.LastRun.Notes()}
	})
}

// Largest lists the largest tables of the database. state may be nil.
func Largest(state *retention.State) output.Table {
	type table struct {
		name  string
		bytes int64
	}
	var all []table
	if state != nil {
		for name, bytes := range state.Tables {
			all = append(all, table{name, bytes})
		}
	}
	slices.SortFunc(all, func(a, b table) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name))
	})
	return output.Rows("TABLE|SIZE", all[:min(len(all), mostTables)], func(t table) []any {
		return []any{t.name, output.Bytes(t.bytes)}
	})
}

// mostTables is how many tables Largest lists.
const mostTables = 5

// one returns a list of the value, or an empty list if it is nil.
func one[T any](v *T) []T {
	if v == nil {
		return nil
	}
	return []T{*v}
}
