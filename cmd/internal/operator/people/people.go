// Package people lists the people with their roles, and records their changes in the audit trail. People sign in with a
// password of the file console.users, which any editor can change, so the console reports the content of the file.
// People of an identity provider or a proxy get their roles from their groups; pawl does not know these people before
// they sign in, and does not list them.
package people

import (
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// ByFile is the actor of the changes that a console has read from console.users. pawl cannot verify who has changed a
// file.
const ByFile = "console.users"

// The states of a person. Active means that pawl accepts the password.
const (
	Active  = "active"
	Removed = "removed"
)

// Listed is a person.
type Listed struct {
	Name  string      `json:"name"`
	Roles []role.Role `json:"roles"`
	State string      `json:"state"`
	// AddedAt is when the console first reported the person. ChangedAt is when the person got the current roles or
	// state.
	AddedAt   time.Time `json:"added_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// List returns the people by name. It includes the removed people.
func List(ctx context.Context, o *decide.Operator) (all []Listed, err error) {
	people, err := o.Audit.People(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range people {
		l := Listed{Name: p.Name, State: Active, AddedAt: p.AddedAt, ChangedAt: p.ChangedAt}
		for _, name := range p.Roles {
			l.Roles = append(l.Roles, role.Role(name))
		}
		if p.Removed {
			l.State = Removed
		}
		all = append(all, l)
	}
	return all, nil
}

// reported is the input of [RecordCall].
type reported struct {
	// Host is the machine of the console.
	Host string
	// Roles are the roles of each person by name.
	Roles map[string][]string
}

// Report records the differences between the people in the audit trail and the people of a console's file. It repeats
// nothing that is recorded.
func Report(ctx context.Context, o *decide.Operator, host string, people []decide.Person) error {
	in := reported{host, map[string][]string{}}
	for _, p := range people {
		roles := []string{}
		for _, r := range p.Roles {
			roles = append(roles, string(r))
		}
		in.Roles[p.Name] = roles
	}
	var err error
	if o.Remote {
		_, err = decide.CallWorker[decide.Nothing](ctx, o, RecordCall.Name, RecordCall.Within, in)
	} else {
		_, err = record(ctx, o, in)
	}
	return err
}

// RecordCall is the call by which a console executes [Report] on a worker.
var RecordCall = decide.NewCall("record_people", 0, record)

// The bounds of a report, which a console sends.
const (
	mostPeople  = 1000
	longestHost = 253 // the maximum length of a host name
)

func record(ctx context.Context, o *decide.Operator, in reported) (*decide.Nothing, error) {
	if len(in.Roles) > mostPeople {
		return nil, decide.Invalidf("console.users has %d people, more than %d", len(in.Roles), mostPeople)
	}
	if len(in.Host) > longestHost || strings.ContainsFunc(in.Host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, decide.Invalidf("%.40q is not a host name", in.Host)
	}
	for name, roles := range in.Roles {
		if err := decide.CheckName(name); err != nil {
			return nil, decide.Invalidf("%v", err)
		}
		for _, r := range roles {
			if _, err := role.Parse(r); err != nil {
				return nil, decide.Invalidf("%v", err)
			}
		}
	}
	return &decide.Nothing{}, o.Audit.SetPeople(ctx, ByFile, "read from console.users by the console on "+in.Host,
		in.Roles)
}
