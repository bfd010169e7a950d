package operator

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Person is somebody, or a program, whose name was verified: by a password, an identity provider, a proxy or a token.
type Person struct {
	Identity
	// Name is for people. The audit trail has it beside the identity.
	Name  string
	Roles []role.Role
	// Networks and Until bound a token: where it may be used from, empty for everywhere, and until when, nil for ever.
	Networks []netip.Prefix
	Until    *time.Time
}

// Identity is a person or a program as its issuer knows it. Two people differ by it, and not by their names: a person
// may change the name, and two people may have the same one.
type Identity struct {
	// Issuer is the identity provider's URL, or one of [IssuerLocal] and its like.
	Issuer string
	// Subject is unique at the issuer.
	Subject string
}

// The issuers of identities that no identity provider verifies: the file of users, a proxy before the console, a token
// of the API, and pawl dev.
const (
	IssuerLocal = "local"
	IssuerProxy = "proxy"
	IssuerToken = "token"
	IssuerDev   = "dev"
)

// May reports whether one of the person's roles has one of the rights. A nil person has no right.
func (p *Person) May(rights ...role.Right) bool {
	return p != nil && slices.ContainsFunc(p.Roles, func(r role.Role) bool {
		return slices.ContainsFunc(rights, r.May)
	})
}

// program reports whether it is a program with a token.
func (p *Person) program() bool { return p.Issuer == IssuerToken }

// Rights are the rights to the verb: each of them is enough. A person who may judge money may also decide what becomes
// of the effects of an event, as the first person or as the second one.
func (v *Verb) Rights() []role.Right {
	needs := cmp.Or(v.Needs, role.RightDecide)
	if v.Judges && needs == role.RightDecide {
		return []role.Right{needs, role.RightMoney}
	}
	return []role.Right{needs}
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
	if !d.By.May(v.Rights()...) {
		return Forbids(v.Name, v.Rights()...)
	}
	return nil
}

// identity is the identity of the person who decides. An item is decided by the person who made its job. The identity
// of the command line, and of pawl itself, is the zero value.
func (d *Decision) identity() Identity {
	if d.By == nil {
		return d.madeBy
	}
	return d.By.Identity
}
