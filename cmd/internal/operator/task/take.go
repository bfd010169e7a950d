package task

import (
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Take implements `pawl tasks take`.
var Take = decide.Verb{
	Name: "take-task", Needs: role.RightTasks, Command: "tasks take", Target: "OBJECT",
	Rule:  ruleOf(func(t Result) string { return "taken by " + t.TakenBy }, take),
	Flags: []decide.Flag{decide.FlagKind, decide.FlagMode}, Short: "Assign the open task of an object to yourself",
	Long: `Assign the open task of an object to yourself, also if another person has it. pawl tasks list shows the OBJECT of each
task.`,
}

func take(d *decide.Decision, t *account.Task) (c change, err error) {
	if t.TakenBy == d.Actor {
		return c, d.Refuse("is already assigned to %s", d.Actor)
	}
	t.TakenBy = d.Actor
	return change{after: resultOf(t), do: account.Take}, nil
}
