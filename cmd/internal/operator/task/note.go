package task

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Note implements `pawl tasks note`.
var Note = decide.Verb{
	Name: "note-task", Needs: role.RightTasks, Command: "tasks note", Target: "OBJECT", Rule: ruleOf(always("noted"),
		note),
	Flags: []decide.Flag{decide.FlagKind, decide.FlagMode}, ReasonHelp: "the note (required)",
	Short: "Add a note to the open task of an object",
	Long:  `Add a note to the open task of an object. pawl tasks show lists all notes, with author and time.`,
}

// note changes nothing, because only the audit trail stores a note.
func note(_ *decide.Decision, t *account.Task) (change, error) {
	return change{after: resultOf(t), do: func(context.Context, account.Execer, account.Task) (bool, error) {
		return true, nil
	}}, nil
}
