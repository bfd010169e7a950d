package event

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/workflows"
)

// Done implements `pawl events mark-done`.
var Done = decide.Verb{
	Name: workflows.UpdateDone, Judges: true, Command: "events mark-done", Target: "ID",
	Rule: ruleOf(checkParked, forecastParked), Previews: true, Many: parkedStatuses,
	Flags: []decide.Flag{flagEffect("the only effect that is not done"), {
		Name: "reference", Usage: "the effect's `ID` in the other system (required)", Required: true,
		Value: func(a *decide.Args) *string { return &a.Reference },
	}},
	Short: "Mark an effect of a parked run as done",
	Long: `Mark an effect as done that happened outside of pawl: a person executed it by hand, or found its result in the other
system. The ledger stores the effect as done, with the reference. A later compensation reverses it like any other effect.
--reference identifies it in the other system: the number of an entry, a line in the log of a mail server.`,
}
