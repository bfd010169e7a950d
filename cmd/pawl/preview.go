package main

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/workflows"
)

// writePreview writes what would happen to a target.
func writePreview(a *app, p *operator.Preview) error {
	if p.Refused != "" {
		fmt.Fprintf(a.out, "%s would be refused: %s\n", p.Verb, output.Clean(p.Refused))
		return a.writeChoices("What can be done:", p.Choices)
	}
	about := fmt.Sprintf("%s (%s, now %s)", p.Receipt.EventID, p.Receipt.Type, p.Receipt.Status)
	if p.Access != nil {
		about = p.Access.Account
	}
	if p.Receipt.ID == "" {
		_, err := fmt.Fprintf(a.out, "%s would be done%s. Nothing was changed.\n", p.Verb,
			output.Clean(output.Because(p.Says)))
		return err
	}
	fmt.Fprintf(a.out, "%s of %s would come to this. Nothing was changed.\n\n", p.Verb, output.Clean(about))
	rows := [][]string{{"WHAT HAPPENS", "EFFECT", "AMOUNT", "KEY", "NOTE"}}
	for _, e := range p.Effects {
		amount := ""
		if e.Amount != nil {
			amount = stripe.Money(*e.Amount, e.Currency)
		}
		rows = append(rows, []string{e.Will.String(), e.Kind, amount, e.Key, previewNote(e)})
	}
	if len(p.Effects) == 0 {
		rows = [][]string{{"no effect is known yet"}}
	}
	if err := a.Table(rows); err != nil {
		return err
	}
	if p.WaitsFor != "" {
		fmt.Fprintf(a.out, "\nits run waits first: %s\n", output.Clean(p.WaitsFor))
	}
	then := "then"
	if p.Counts[workflows.WillRunLater] > 0 {
		then = "then, when what waits has run,"
	}
	if p.Access != nil {
		fmt.Fprintf(a.out, "\n%s\n%s %s may use %s\n", output.Clean(totals(p.Counts, p.Money)), then,
			output.Clean(p.Access.Account),
			output.Clean(operator.Uses(p.Access.Target.Plan, p.Access.Target.Quantity)))
		return nil
	}
	fmt.Fprintf(a.out, "\n%s\n%s it is %s%s\n", output.Clean(totals(p.Counts, p.Money)), then, p.Outcome,
		output.Clean(becauseOf(p.Outcome, p.Reason)))
	return nil
}

// previewNote says what else there is to know of an effect.
func previewNote(e workflows.PreviewedEffect) string {
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

// totals count the effects by their fate, with the money of their entries: what would be booked, or is booked already.
// Any other fate has the money that its effects are about.
func totals(counts map[workflows.Will]int, money []operator.Sum) string {
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

// books says what becomes of an entry's money, where anything does.
var books = map[workflows.Will]string{
	workflows.WillStay: "booked ", workflows.WillRun: "books ", workflows.WillRunLater: "books ",
	workflows.WillRunAndTakeBack: "books ",
}

// waitsFirst says what an effect waits for before it is tried.
func waitsFirst(words string) string {
	if strings.HasPrefix(words, "waits for ") {
		return words
	}
	return "waits first: " + words
}
