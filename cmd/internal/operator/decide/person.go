package decide

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/workflows"
)

// Person is a person or program that was authenticated by a password, an identity provider, a proxy or a token.
type Person struct {
	Identity
	// Name is shown to people. The audit trail stores the name with the identity.
	Name  string
	Roles []role.Role
	// Networks and Until restrict a token. An empty list permits every network, and a nil Until means that the token
	// does not expire.
	Networks []netip.Prefix
	Until    *time.Time
}

// Identity identifies a person or a program. Two people are different if their identities differ. Names are not
// compared, because a person can change the name, and two people can have the same name.
type Identity struct {
	// Issuer is the URL of the identity provider, or [IssuerLocal] or one of the following constants.
	Issuer string
	// Subject is unique at the issuer.
	Subject string
}

// The issuers of identities that no identity provider verifies: the users file, a proxy in front of the console, an
// API token, and pawl dev.
const (
	IssuerLocal = "local"
	IssuerProxy = "proxy"
	IssuerToken = "token"
	IssuerDev   = "dev"
)

// ByTheClock is the name in the audit records of scheduled decisions.
const ByTheClock = "the clock"

// May reports whether one of the person's roles has one of the rights. A nil person has no right.
func (p *Person) May(rights ...role.Right) bool {
	return p != nil && slices.ContainsFunc(p.Roles, func(r role.Role) bool {
		return slices.ContainsFunc(rights, r.May)
	})
}

// IsProgram reports whether the person is a program with a token.
func (p *Person) IsProgram() bool { return p.Issuer == IssuerToken }

// permit refuses a person without the right to the verb. For a job, the person needs the right to the verb of the
// job's items. permit also sets the name of the decision to the person's name. On the command line there is no
// authenticated person, because access to the database is sufficient.
func (d *Decision) permit(v *Verb) error {
	if d.By == nil {
		return nil
	}
	d.Actor = d.By.Name
	if j, ok := d.Found.(*NewJob); ok {
		v = cmp.Or(d.Operator.Verbs.Named(j.Action), v)
	}
	if !d.By.May(v.Rights()...) {
		return Forbids(v.Name, v.Rights()...)
	}
	return nil
}

// Identity returns the identity of the person who decides. For an item of a job it is the identity of the person who
// created the job. For the command line and for pawl itself it is the zero value.
func (d *Decision) Identity() Identity {
	switch {
	case d.By != nil:
		return d.By.Identity
	case d.Item != nil:
		return Identity{d.Item.Job.Issuer, d.Item.Job.Subject}
	}
	return Identity{}
}

// CheckName refuses a name that is reserved or unprintable: names of the command line start with "uid:", names of
// programs with "token:", and the audit trail prints a name on one line.
func CheckName(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || len(name) > workflows.MaxWho:
		return fmt.Errorf("a person's name has 1 to %d bytes", workflows.MaxWho)
	case strings.HasPrefix(name, "uid:") || strings.HasPrefix(name, "token:"):
		return fmt.Errorf("%q is not allowed as the name of a person: names with this prefix belong to the command line and to tokens", name)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(name):
		return fmt.Errorf("the name %q has control characters or invisible characters", name)
	}
	return nil
}
