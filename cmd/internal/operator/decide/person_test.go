package decide_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/job"
)

// TestPermit_RolesAndVerbs checks each role with each verb: the decision is permitted if the table of rights permits
// it.
func TestPermit_RolesAndVerbs(t *testing.T) {
	may := map[role.Role]map[role.Right]bool{
		role.Viewer: {}, role.Reveal: {role.RightReveal: true}, role.Support: {role.RightTasks: true},
		role.Operator: {role.RightTasks: true, role.RightDecide: true}, role.Finance: {role.RightTasks: true, role.RightMoney: true},
		role.Admin: {role.RightTasks: true, role.RightDecide: true, role.RightMoney: true, role.RightReveal: true, role.RightAdmin: true},
	}
	for _, named := range role.All() {
		for _, v := range operator.Verbs {
			d := decide.Decision{Verb: v.Name, Target: "x", Actor: "somebody else", Reason: "test", By: &decide.Person{Name: "ada", Roles: []role.Role{named}}}
			err := d.CheckFor(&decide.Operator{Verbs: operator.Verbs})
			permitted := slices.ContainsFunc(v.Rights(), func(right role.Right) bool { return may[named][right] })
			if decide.IsFault(err, decide.Forbidden) == permitted {
				t.Errorf("%s as %s: %v", v.Name, named, err)
			}
			if d.Actor != "ada" {
				t.Errorf("%s is decided by %q: the name has to be the verified one", v.Name, d.Actor)
			}
		}
	}
}

func TestPermit_JobNeedsRightOfItsVerb(t *testing.T) {
	for action, may := range map[string]bool{event.Retry.Name: true, event.Compensate.Name: false, job.CloseTask: true} {
		d := decide.Decision{Verb: jobs.Start.Name, Target: "x", Reason: "test", By: &decide.Person{Name: "ada", Roles: []role.Role{role.Operator}},
			Args: decide.Args{Found: &decide.NewJob{Job: job.Job{Action: action}}}}
		if err := d.CheckFor(&decide.Operator{Verbs: operator.Verbs}); (err == nil) != may {
			t.Errorf("a job that decides by %s: %v", action, err)
		}
	}
}
