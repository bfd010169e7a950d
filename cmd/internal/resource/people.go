package resource

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

var listedPeople = &list[people.Listed]{
	Description: Description{
		Name: "people", Title: "People", Command: "people list", Path: "/people",
		Short: "List the people with their roles, and when they last changed",
		Long: `List the people of the file console.users with their roles, when they were added, and their last change. A running
console records each change of the file in the audit trail, with the previous and the new roles. It cannot
verify who changed the file, so the actor is console.users. All consoles must have the same file.

People who sign in through an identity provider or a proxy are not in the list: their groups determine their roles.`,
		Empty: "There are no people with a password. The groups of your identity provider or proxy determine the roles of its people.",
		Right: role.RightRead, Drops: []string{"SINCE"},
	},
	read: func(ctx context.Context, e Env, _ Query) ([]people.Listed, error) {
		return people.List(ctx, e.Operator)
	},
	table: tables.People,
}
