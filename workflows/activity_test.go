package workflows_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/workflows"
)

// allActivities contains the activities without a receiver in this package: the activities of jobs and schedules.
type allActivities struct{}

func (allActivities) WorkOnJob()       {}
func (allActivities) StopJob()         {}
func (allActivities) ReconcileDue()    {}
func (allActivities) FindGaps()        {}
func (allActivities) DeleteExpired()   {}
func (allActivities) ExamineEndpoint() {}

// If a kind of effect had no activity, a step of this kind would stop its run.
func TestExecutors_EachKind(t *testing.T) {
	t.Parallel()
	if missing := workflows.KindsWithoutActivity(); missing != nil {
		t.Errorf("no activity executes %q", missing)
	}
}

// A missing receiver is reported when the worker starts. Otherwise a run would wait until the deadline of the
// receiver's activity.
func TestCheckReceivers_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	all := []any{new(activities.Billing), new(activities.Workspaces), new(activities.Finance), new(activities.Mail), new(activities.Tasks),
		new(activities.Destinations), new(activities.Runs), new(activities.Objects), new(step.Flows), allActivities{}}
	if err := workflows.CheckReceivers(all); err != nil {
		t.Errorf("all are registered: %v", err)
	}
	for i, name := range []string{"*activities.Billing", "*activities.Workspaces", "*activities.Finance", "*activities.Mail", "*activities.Tasks",
		"*activities.Destinations", "*activities.Runs", "*activities.Objects", "*step.Flows", "StopJob"} {
		rest := append(append([]any{}, all[:i]...), all[i+1:]...)
		if err := workflows.CheckReceivers(rest); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v, want it named", name, err)
		}
	}
}
