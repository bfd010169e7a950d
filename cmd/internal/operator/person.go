package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Right is what a person may do.
type Right string

// The rights. Reading shows payloads masked; revealing shows them whole.
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

// The roles. Admin has every right. Reveal is given beside another role.
const (
	RoleViewer   Role = "viewer"
	RoleSupport  Role = "support"
	RoleOperator Role = "operator"
	RoleFinance  Role = "finance"
	RoleReveal   Role = "reveal"
	RoleAdmin    Role = "admin"
)

var rightsOf = map[Role][]Right{
	RoleViewer:   {RightRead},
	RoleSupport:  {RightRead, RightTasks},
	RoleOperator: {RightRead, RightTasks, RightDecide},
	RoleFinance:  {RightRead, RightTasks, RightMoney},
	RoleReveal:   {RightRead, RightReveal},
	RoleAdmin:    {RightRead, RightTasks, RightDecide, RightMoney, RightReveal, RightAdmin},
}

// Roles lists the names of all roles.
func Roles() []Role {
	return []Role{RoleViewer, RoleSupport, RoleOperator, RoleFinance, RoleReveal, RoleAdmin}
}

// ParseRole returns the role of a name.
func ParseRole(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", invalid("there is no role %.40q: use one of %v", name, Roles())
}

// Person is somebody, or a program, whose name was verified: by a password, an identity provider, a proxy or a token.
type Person struct {
	// Name stands in the audit trail.
	Name  string
	Roles []Role
}

// May says whether one of the person's roles has a right. Nobody has no right.
func (p *Person) May(r Right) bool {
	return p != nil && slices.ContainsFunc(p.Roles, func(role Role) bool { return slices.Contains(rightsOf[role], r) })
}

// program reports whether it is a program that is known by a token: [CheckName] gives no person such a name.
func (p *Person) program() bool { return strings.HasPrefix(p.Name, "token:") }

// ForbiddenError says that a person lacks the right that a verb needs. Nothing was changed.
type ForbiddenError struct {
	Verb  string
	Needs Right
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("%s needs the right %q, and none of your roles has it", e.Verb, e.Needs)
}

// Right is the one that the verb needs.
func (v *Verb) Right() Right {
	return cmp.Or(v.Needs, RightDecide)
}

// permit refuses a person without the verb's right; that of a job is the right of the verb that it decides by. It
// takes the name from the person. The command line has no person: whoever may open the database may decide there.
func (d *Decision) permit(v *Verb) error {
	if d.By == nil {
		return nil
	}
	d.Who = d.By.Name
	if j, ok := d.Found.(*NewJob); ok {
		v = cmp.Or(VerbNamed(j.Action), v)
	}
	if !d.By.May(v.Right()) {
		return &ForbiddenError{Verb: v.Name, Needs: v.Right()}
	}
	return nil
}
