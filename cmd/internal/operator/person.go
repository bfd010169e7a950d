package operator

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// Person is an authenticated person or program: by a password, an identity provider, a proxy or a token.
type Person struct {
	Identity
	// Name is shown to people. The audit trail stores it beside the identity.
	Name  string
	Roles []role.Role
	// Networks and Until restrict a token. No networks means every network, and nil means that it does not expire.
	Networks []netip.Prefix
	Until    *time.Time
}

// Identity identifies a person or a program. Two people are different if their identities differ. Names are not
// compared, because a person can change the name and two people can have the same one.
type Identity struct {
	// Issuer is the URL of the identity provider, or [IssuerLocal] or one of the following constants.
	Issuer string
	// Subject is unique at the issuer.
	Subject string
}

// The issuers of identities that no identity provider verifies: the file of users, a proxy in front of the console, an
// API token, and pawl dev.
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

// program reports whether the person is a program with a token.
func (p *Person) program() bool { return p.Issuer == IssuerToken }

// Rights returns the rights that permit the verb. One of them is enough. A person with the right to judge money may
// also decide about the effects of an event, as the first or the second person.
func (v *Verb) Rights() []role.Right {
	needs := cmp.Or(v.Needs, role.RightDecide)
	if v.Judges && needs == role.RightDecide {
		return []role.Right{needs, role.RightMoney}
	}
	return []role.Right{needs}
}

// permit refuses a person without the right to the verb. A job needs the right to the verb of its items. The decision
// gets the name of the person. The command line has no person, because access to the database is enough.
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

// identity returns the identity of the person who decides. For an item it is the person who created the job. For the
// command line and for pawl itself it is the zero value.
func (d *Decision) identity() Identity {
	if d.By == nil {
		return d.madeBy
	}
	return d.By.Identity
}
