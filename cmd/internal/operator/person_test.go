package operator

import (
	"errors"
	"testing"

	"github.com/pawlhq/pawl/schema/job"
)

// TestPermit_RolesAndVerbs walks each role through each verb: who may decide what is what the table of rights says.
func TestPermit_RolesAndVerbs(t *testing.T) {
	may := map[Role]map[Right]bool{
		RoleViewer: {}, RoleReveal: {RightReveal: true}, RoleSupport: {RightTasks: true},
		RoleOperator: {RightTasks: true, RightDecide: true}, RoleFinance: {RightTasks: true, RightMoney: true},
		RoleAdmin: {RightTasks: true, RightDecide: true, RightMoney: true, RightReveal: true, RightAdmin: true},
	}
	for _, role := range Roles() {
		for _, v := range Verbs() {
			d := Decision{Verb: v.Name, Target: "x", Who: "somebody else", Why: "test", By: &Person{"ada", []Role{role}}}
			_, err := d.check(false)
			if forbidden, ok := errors.AsType[*ForbiddenError](err); ok == may[role][v.Right()] {
				t.Errorf("%s as %s: %v, %v", v.Name, role, forbidden, err)
			}
			if d.Who != "ada" {
				t.Errorf("%s is decided by %q: the name has to be the verified one", v.Name, d.Who)
			}
		}
	}
}

func TestPermit_JobNeedsRightOfItsVerb(t *testing.T) {
	for action, may := range map[string]bool{VerbRetry: true, VerbCompensate: false, job.CloseTask: true} {
		d := Decision{Verb: VerbStartJob, Target: "x", Why: "test", By: &Person{"ada", []Role{RoleOperator}},
			Args: Args{Found: &NewJob{Job: job.Job{Action: action}}}}
		if _, err := d.check(false); (err == nil) != may {
			t.Errorf("a job that decides by %s: %v", action, err)
		}
	}
}
