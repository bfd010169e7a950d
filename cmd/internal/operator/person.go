package operator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Person is somebody, or a program, whose name was verified: by a password, an identity provider, a proxy or a token.
type Person struct {
	// Name stands in the audit trail.
	Name  string
	Roles []role.Role
}

// May says whether one of the person's roles has a right. Nobody has no right.
func (p *Person) May(right role.Right) bool {
	return p != nil && slices.ContainsFunc(p.Roles, func(r role.Role) bool { return r.May(right) })
}

// program reports whether it is a program that is known by a token: [CheckName] gives no person such a name.
func (p *Person) program() bool { return strings.HasPrefix(p.Name, "token:") }

// Right is the one that the verb needs.
func (v *Verb) Right() role.Right { return cmp.Or(v.Needs, role.RightDecide) }

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
		return Forbids(v.Name, v.Right())
	}
	return nil
}
