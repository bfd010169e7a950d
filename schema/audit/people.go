package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// The actions that record changes of the people who sign in with a password. The target is the name of the person.
const (
	AddPerson    = "add-person"
	ChangePerson = "change-person"
	RemovePerson = "remove-person"
)

// Person is a person as the trail describes the person last.
type Person struct {
	// ID is the row of the last change.
	ID    int64
	Name  string
	Roles []string
	// AddedAt is when the person was added, the last time after a removal. ChangedAt is when the person was added, got
	// other roles, or was removed.
	AddedAt, ChangedAt time.Time
	Removed            bool
}

const peopleSQL = `
select distinct on (target) id, target as name, action = 'remove-person' as removed, at as changed_at,
       case action when 'remove-person' then before else after end -> 'roles' as roles,
       (select max(added.at) from operator_actions added
         where added.target = change.target and added.action = 'add-person') as added_at
  from operator_actions change where action in ('add-person', 'change-person', 'remove-person')
 order by target, id desc`

// People returns the people in the order of their names, with the removed people.
func (s *Store) People(ctx context.Context) ([]Person, error) {
	return schema.List[Person](ctx, s.pool, "read the changes of people", peopleSQL)
}

// SetPeople records the differences between the trail and the people who can sign in now. by and reason are stored with
// each difference. If several processes report the same people at the same time, each difference is recorded once.
func (s *Store) SetPeople(ctx context.Context, by, reason string, now map[string][]string) error {
	known, err := s.People(ctx)
	if err != nil {
		return err
	}
	last := map[string]Person{}
	for _, p := range known {
		last[p.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		roles := now[name]
		was, is := last[name]
		switch {
		case !is || was.Removed:
			err = s.changePerson(ctx, was.ID, Action{Actor: by, Action: AddPerson, Target: name,
				Reason: fmt.Sprintf("added as %s; %s", list(roles), reason), After: rolesOf(roles)})
		case !slices.Equal(was.Roles, roles):
			err = s.changePerson(ctx, was.ID, Action{Actor: by, Action: ChangePerson, Target: name,
				Reason: fmt.Sprintf("%s before, now %s; %s", list(was.Roles), list(roles), reason),
				Before: rolesOf(was.Roles), After: rolesOf(roles)})
		}
		if err != nil {
			return err
		}
	}
	for _, p := range known {
		if _, is := now[p.Name]; is || p.Removed {
			continue
		}
		err := s.changePerson(ctx, p.ID, Action{Actor: by, Action: RemovePerson, Target: p.Name,
			Reason: fmt.Sprintf("removed, was %s; %s", list(p.Roles), reason), Before: rolesOf(p.Roles)})
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the roles as text.
func list(roles []string) string { return cmp.Or(strings.Join(roles, ", "), "without a role") }

func rolesOf(roles []string) map[string]any { return map[string]any{"roles": roles} }

// changePerson appends the change of a person after the row last. Only one change can follow a row.
func (s *Store) changePerson(ctx context.Context, last int64, a Action) error {
	a.RequestID = fmt.Sprintf("person/%s/%d", a.Target, last)
	return s.Append(ctx, a)
}
