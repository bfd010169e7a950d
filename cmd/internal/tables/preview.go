package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows"
)

// Effects lists the forecasts for the effects of a run.
func Effects(effects []workflows.PreviewedEffect) [][]string {
	if len(effects) == 0 {
		return [][]string{{"no effects known yet"}}
	}
	return output.Rows("WHAT HAPPENS|EFFECT|AMOUNT|KEY|NOTE", effects, func(e workflows.PreviewedEffect) []any {
		return []any{e.Will, e.Kind, Amount(e.Amount, e.Currency), e.Key, PreviewNote(e)}
	})
}

// PreviewNote explains the forecast of an effect.
func PreviewNote(e workflows.PreviewedEffect) string {
	var notes []string
	if e.WaitsFor != "" {
		notes = append(notes, waitsFirst(e.WaitsFor))
	}
	if e.By != "" {
		notes = append(notes, "by "+e.By)
	}
	if e.Undoes != "" {
		notes = append(notes, "takes back "+e.Undoes)
	}
	if e.Why != "" {
		notes = append(notes, e.Why)
	}
	if (e.Will == workflows.WillTakeBack || e.Will == workflows.WillRunAndTakeBack) && e.Undo != "" {
		notes = append(notes, "by "+e.Undo)
	}
	return strings.Join(notes, "; ")
}

// Totals counts the effects by forecast, with the money of their entries: to be booked, or already booked. Other
// forecasts have the money that the effects are about.
func Totals(counts map[workflows.Will]int, money []operator.Sum) string {
	var parts []string
	for _, w := range workflows.Wills() {
		if counts[w] == 0 {
			continue
		}
		var sums []string
		for _, m := range money {
			if m.Will == w {
				sums = append(sums, stripe.Money(m.Amount, m.Currency))
			}
		}
		part := fmt.Sprintf("%s: %d", w, counts[w])
		if len(sums) > 0 {
			part += " (" + books[w] + strings.Join(sums, ", ") + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "no effect"
	}
	return strings.Join(parts, "; ")
}

// Then describes the end of a previewed decision: the status of the event, and the access of its account if the
// decision changes facts. For a decision about an account it describes the access alone.
func Then(p *operator.Preview) string {
	uses := func(a *fold.Access) string {
		return a.Account + " may use " + operator.Uses(a.Target.Plan, a.Target.Quantity)
	}
	if p.Access != nil {
		return uses(p.Access)
	}
	then := "it is " + p.Outcome + Because(p.Outcome, p.Reason)
	if p.AccessAfter != nil {
		then += "; " + uses(p.AccessAfter)
	}
	return then
}

func waitsFirst(words string) string {
	if strings.HasPrefix(words, "waits for ") {
		return words
	}
	return "waits first: " + words
}

// books describes the effect of a forecast on an entry's money, if it has one.
var books = map[workflows.Will]string{
	workflows.WillStay: "booked ", workflows.WillRun: "books ", workflows.WillRunLater: "books ",
	workflows.WillRunAndTakeBack: "books ",
}

// Chosen lists the selected events of a job.
func Chosen(events []operator.ChosenEvent) [][]string {
	return output.Rows("EVENT|TYPE|STATUS|REASON|ACCOUNT|AMOUNT", events, func(e operator.ChosenEvent) []any {
		return []any{e.EventID, e.Type, e.Status, e.ReasonCode, e.Account, Amount(e.Amount, e.Currency)}
	})
}

// JobPreview describes the outcome of a job.
func JobPreview(p *operator.JobPreview) [][]string {
	var ends []string
	for _, status := range slices.Sorted(maps.Keys(p.Outcomes)) {
		ends = append(ends, fmt.Sprintf("%d would be %s", p.Outcomes[status], status))
	}
	for _, why := range slices.Sorted(maps.Keys(p.Refusals)) {
		ends = append(ends, fmt.Sprintf("%d would be refused (%s)", p.Refusals[why], why))
	}
	if p.Unknown > 0 {
		ends = append(ends, fmt.Sprintf("%d cannot be forecast (%s)", p.Unknown, p.Why))
	}
	outcomes := "outcomes"
	if p.Previewed < p.Count {
		outcomes = fmt.Sprintf("outcomes of the newest %d", p.Previewed)
	}
	rows := [][]string{{outcomes, strings.Join(ends, ", ")}, {"effects", Totals(p.Counts, p.Sums)}}
	if len(p.Kinds) > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", p.Kinds[kind], kind))
		}
		rows = append(rows, []string{"kinds", strings.Join(kinds, ", ")})
	}
	if p.FourEyes != "" {
		rows = append(rows, []string{"two people", p.FourEyes})
	}
	return rows
}
