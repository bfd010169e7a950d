package tables

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/workflows"
)

// Effects lists the forecast for each effect of a run.
func Effects(effects []workflows.PreviewedEffect) output.Table {
	if len(effects) == 0 {
		return output.Table{{"no steps known yet"}}
	}
	return output.Rows("WHAT HAPPENS|STEP|AMOUNT|KEY|NOTE", effects, func(e workflows.PreviewedEffect) []any {
		return []any{e.Will, label.StepOf(e.Kind, e.Key).Name, Amount(e.Amount, e.Currency), objectLink(e.Key),
			PreviewNote(e)}
	})
}

// RulesSettings lists the settings that other billing rules change.
func RulesSettings(settings []fact.Setting) output.Table {
	return output.Rows("SETTING|ACTIVE|PROPOSED", settings, func(s fact.Setting) []any {
		return []any{s.Name, cmp.Or(s.Was, "nothing"), cmp.Or(s.Is, "nothing")}
	})
}

// RulesAccounts lists the accounts that other billing rules affect.
func RulesAccounts(accounts []decide.AffectedAccount) output.Table {
	return output.Rows("ACCOUNT|MODE|CHANGE|ACCESS BEFORE|ACCESS AFTER", accounts,
		func(a decide.AffectedAccount) []any {
			return []any{accountLink(a.Account, a.Mode), output.Badge(a.Mode), a.Change, a.Before, a.After}
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
	if e.Reason != "" {
		notes = append(notes, e.Reason)
	}
	if (e.Will == workflows.WillTakeBack || e.Will == workflows.WillRunAndTakeBack) && e.Undo != "" {
		notes = append(notes, "by "+e.Undo)
	}
	return strings.Join(notes, "; ")
}

// Consequence describes in sentences which steps a decision executes, takes back or skips, with the money that it
// books.
func Consequence(p *decide.Preview) string {
	steps := map[workflows.Will][]string{}
	for _, e := range p.Effects {
		kind := label.StepOf(e.Kind, e.Key)
		name := kind.Name
		if e.Amount != nil {
			name += " of " + money.Format(*e.Amount, e.Currency)
		}
		if !slices.Contains(steps[e.Will], name) {
			steps[e.Will] = append(steps[e.Will], name)
		}
	}
	var sentences []string
	for _, w := range workflows.Wills() {
		if does, changes := consequences[w]; changes && len(steps[w]) > 0 {
			sentences = append(sentences, does+": "+strings.Join(steps[w], ", ")+".")
		}
	}
	if len(sentences) == 0 {
		return "No step is executed."
	}
	return strings.Join(append(sentences, "Nothing else changes."), " ")
}

// consequences maps the forecasts that change something to the first words of a sentence.
var consequences = map[workflows.Will]string{
	workflows.WillRun: "Executes", workflows.WillRunLater: "Executes later", workflows.WillTakeBack: "Takes back",
	workflows.WillRunAndTakeBack: "Executes, then takes back", workflows.WillSkip: "Skips",
	workflows.WillMark: "Records as done", workflows.WillAsk: "Asks for a decision about",
	workflows.WillRefuse: "Is refused", workflows.WillNotBeDone: "Does not execute",
	workflows.WillLeave: "Omits as obsolete",
}

// Totals returns the number of effects by forecast, with their money. For entries it adds up the money to be booked or
// already booked. For other effects it adds up the money that the effects are about.
func Totals(counts map[workflows.Will]int, amounts []decide.Sum) string {
	var parts []string
	for _, w := range workflows.Wills() {
		if counts[w] == 0 {
			continue
		}
		var sums []string
		for _, m := range amounts {
			if m.Will == w {
				sums = append(sums, money.Format(m.Amount, m.Currency))
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

// Then describes the result of a previewed decision: the status of the event, and the access of the account if the
// decision changes facts. For a decision about an account it describes only the access.
func Then(p *decide.Preview) string {
	uses := func(a *fold.Access) string {
		return a.Account + " may use " + account.Uses(a.Target.Plan, a.Target.Quantity)
	}
	if p.Access != nil {
		return uses(p.Access)
	}
	then := "the event ends as " + label.Word(p.Outcome) +
		output.WithReason(label.Clause(strings.TrimPrefix(p.Reason, p.Outcome+": ")))
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

// books describes, by forecast, whether the money of an entry will be booked or is booked already.
var books = map[workflows.Will]string{
	workflows.WillStay: "booked ", workflows.WillRun: "books ", workflows.WillRunLater: "books ",
	workflows.WillRunAndTakeBack: "books ",
}

// Chosen lists the events that were selected for a job.
func Chosen(events []decide.ChosenEvent) output.Table {
	return output.Rows("EVENT|TYPE|STATUS|REASON|ACCOUNT|AMOUNT", events, func(e decide.ChosenEvent) []any {
		return []any{eventLink(e.EventID), e.Type, output.Badge(e.Status), label.Reason(e.ReasonCode),
			objectLink(e.Account),
			Amount(e.Amount, e.Currency)}
	})
}

// ConsequenceRows lists the consequences of a decision for people.
func ConsequenceRows(consequences []decide.Consequence) (rows output.Table) {
	for _, c := range consequences {
		rows = append(rows, []any{c.About, c.Text})
	}
	return rows
}

// JobPreview describes the expected result of a job.
func JobPreview(p *job.Preview) output.Table {
	var ends []string
	for _, status := range slices.Sorted(maps.Keys(p.Outcomes)) {
		ends = append(ends, fmt.Sprintf("%d would end as %s", p.Outcomes[status], label.Word(status)))
	}
	for _, why := range slices.Sorted(maps.Keys(p.Refusals)) {
		ends = append(ends, fmt.Sprintf("%d would be refused (%s)", p.Refusals[why], why))
	}
	if p.Unknown > 0 {
		ends = append(ends, fmt.Sprintf("%d cannot be forecast (%s)", p.Unknown, p.UnknownReason))
	}
	outcomes := "outcomes"
	if p.Previewed < p.Count {
		outcomes = fmt.Sprintf("outcomes of the newest %d", p.Previewed)
	}
	rows := output.Table{{outcomes, strings.Join(ends, ", ")}, {"effects", Totals(p.Counts, p.Sums)}}
	if len(p.Kinds) > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", p.Kinds[kind], label.KindOf(kind).Name))
		}
		rows = append(rows, []any{"kinds", strings.Join(kinds, ", ")})
	}
	rows = append(rows, ConsequenceRows(p.Consequences)...)
	if p.FourEyes != "" {
		rows = append(rows, []any{"two people", p.FourEyes})
	}
	return rows
}
