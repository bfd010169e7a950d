// Package role defines the rights of people and programs, and the roles that combine rights.
package role

import (
	"fmt"
	"slices"
	"strings"
)

// Right is a permission that a route or a verb requires.
type Right string

// The rights. RightRead permits masked payloads. RightReveal permits complete payloads.
const (
	RightRead   Right = "read"
	RightTasks  Right = "tasks"
	RightDecide Right = "decide"
	RightMoney  Right = "money"
	RightReveal Right = "reveal"
	RightAdmin  Right = "admin"
)

// Role is a set of rights with a name.
type Role string

// Rights lists the rights.
func Rights() []Right {
	return []Right{RightRead, RightTasks, RightDecide, RightMoney, RightReveal, RightAdmin}
}

// The roles. Admin has every right. Reveal is only given together with another role.
const (
	Viewer   Role = "viewer"
	Support  Role = "support"
	Operator Role = "operator"
	Finance  Role = "finance"
	Reveal   Role = "reveal"
	Admin    Role = "admin"
)

// all lists the roles with their rights.
var all = []struct {
	Role
	rights []Right
}{
	{Viewer, []Right{RightRead}},
	{Support, []Right{RightRead, RightTasks}},
	{Operator, []Right{RightRead, RightTasks, RightDecide}},
	{Finance, []Right{RightRead, RightTasks, RightMoney}},
	{Reveal, []Right{RightRead, RightReveal}},
	{Admin, []Right{RightRead, RightTasks, RightDecide, RightMoney, RightReveal, RightAdmin}},
}

// All lists the roles.
func All() []Role {
	list := make([]Role, len(all))
	for i, r := range all {
		list[i] = r.Role
	}
	return list
}

// Names returns the names of all roles, for messages: "viewer, support, …".
func Names() string {
	var names []string
	for _, r := range all {
		names = append(names, string(r.Role))
	}
	return strings.Join(names, ", ")
}

// Parse returns the role with the name.
func Parse(name string) (Role, error) {
	if r := Role(name); slices.Contains(All(), r) {
		return r, nil
	}
	return "", fmt.Errorf("there is no role %.40q: use one of %s", name, Names())
}

// May reports whether the role includes the right. An unknown role includes no right.
func (r Role) May(right Right) bool {
	for _, one := range all {
		if one.Role == r {
			return slices.Contains(one.rights, right)
		}
	}
	return false
}
