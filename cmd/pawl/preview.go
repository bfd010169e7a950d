package main

import (
	"fmt"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
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
	if err := a.Table(tables.Effects(p.Effects)); err != nil {
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
		fmt.Fprintf(a.out, "\n%s\n%s %s may use %s\n", output.Clean(tables.Totals(p.Counts, p.Money)), then,
			output.Clean(p.Access.Account),
			output.Clean(operator.Uses(p.Access.Target.Plan, p.Access.Target.Quantity)))
		return nil
	}
	fmt.Fprintf(a.out, "\n%s\n%s it is %s%s\n", output.Clean(tables.Totals(p.Counts, p.Money)), then, p.Outcome,
		output.Clean(tables.Because(p.Outcome, p.Reason)))
	return nil
}
