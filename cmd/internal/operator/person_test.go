package operator

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/job"
)

// TestPermit_RolesAndVerbs walks each role through each verb: who may decide what is what the table of rights says.
func TestPermit_RolesAndVerbs(t *testing.T) {
	may := map[role.Role]map[role.Right]bool{
		role.Viewer: {}, role.Reveal: {role.RightReveal: true}, role.Support: {role.RightTasks: true},
		role.Operator: {role.RightTasks: true, role.RightDecide: true}, role.Finance: {role.RightTasks: true, role.RightMoney: true},
		role.Admin: {role.RightTasks: true, role.RightDecide: true, role.RightMoney: true, role.RightReveal: true, role.RightAdmin: true},
	}
	for _, named := range role.All() {
		for _, v := range Verbs() {
			d := Decision{Verb: v.Name, Target: "x", Who: "somebody else", Why: "test", By: &Person{Name: "ada", Roles: []role.Role{named}}}
			_, err := d.check(false)
			permitted := slices.ContainsFunc(v.Rights(), func(right role.Right) bool { return may[named][right] })
			if IsFault(err, Forbidden) == permitted {
				t.Errorf("%s as %s: %v", v.Name, named, err)
			}
			if d.Who != "ada" {
				t.Errorf("%s is decided by %q: the name has to be the verified one", v.Name, d.Who)
			}
		}
	}
}

func TestPermit_JobNeedsRightOfItsVerb(t *testing.T) {
	for action, may := range map[string]bool{VerbRetry: true, VerbCompensate: false, job.CloseTask: true} {
		d := Decision{Verb: VerbStartJob, Target: "x", Why: "test", By: &Person{Name: "ada", Roles: []role.Role{role.Operator}},
			Args: Args{Found: &NewJob{Job: job.Job{Action: action}}}}
		if _, err := d.check(false); (err == nil) != may {
			t.Errorf("a job that decides by %s: %v", action, err)
		}
	}
}
