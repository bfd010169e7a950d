package jobs_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/workflows/jobs"
)

// jobRun is a run of a job. Its activity returns the answers one after another, and then repeats the last answer.
func jobRun(t *testing.T, answers ...string) (env *testsuite.TestWorkflowEnvironment, worked, stopped *int) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env = suite.NewTestWorkflowEnvironment()
	worked, stopped = new(int), new(int)
	for _, name := range []string{jobs.ActivityWork, jobs.ActivityStop} {
		env.RegisterActivityWithOptions(func(context.Context, jobs.Input) (jobs.Progress, error) {
			return jobs.Progress{}, nil
		}, activity.RegisterOptions{Name: name})
	}
	env.OnActivity(jobs.ActivityWork, mock.Anything, jobs.Input{ID: "x"}).Return(
		func(context.Context, jobs.Input) (jobs.Progress, error) {
			state := answers[min(*worked, len(answers)-1)]
			*worked++
			return jobs.Progress{State: state, Items: 3, Done: *worked}, nil
		})
	env.OnActivity(jobs.ActivityStop, mock.Anything, jobs.Input{ID: "x"}).Return(
		func(context.Context, jobs.Input) (jobs.Progress, error) {
			*stopped++
			return jobs.Progress{State: "cancelled"}, nil
		})
	return env, worked, stopped
}

func TestJob_WorksUntilItEnds(t *testing.T) {
	t.Parallel()
	env, worked, stopped := jobRun(t, "running", "running", "finished")
	env.ExecuteWorkflow(jobs.Job, jobs.Input{ID: "x"})
	var p jobs.Progress
	if err := env.GetWorkflowResult(&p); err != nil || p.State != "finished" || *worked != 3 || *stopped != 0 {
		t.Errorf("ended %+v, %v after %d stretches", p, err, *worked)
	}
}

func TestJob_Paused_WaitsForASignal(t *testing.T) {
	t.Parallel()
	env, worked, _ := jobRun(t, "paused", "paused", "finished")
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(jobs.SignalChanged, nil) }, time.Hour)
	env.RegisterDelayedCallback(func() {
		if *worked != 2 {
			t.Errorf("worked %d times after one signal, want twice", *worked)
		}
		env.SignalWorkflow(jobs.SignalChanged, nil)
	}, 2*time.Hour)
	env.ExecuteWorkflow(jobs.Job, jobs.Input{ID: "x"})
	var p jobs.Progress
	if err := env.GetWorkflowResult(&p); err != nil || p.State != "finished" || *worked != 3 {
		t.Errorf("ended %+v, %v after %d stretches", p, err, *worked)
	}
}

// A person cancels the run of a paused job in Temporal, whose cancel button suggests that this ends the job.
func TestJob_RunCancelled_JobCancelled(t *testing.T) {
	t.Parallel()
	env, _, stopped := jobRun(t, "paused")
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(jobs.Job, jobs.Input{ID: "x"})
	var p jobs.Progress
	if err := env.GetWorkflowResult(&p); err != nil || p.State != "cancelled" || *stopped != 1 {
		t.Errorf("ended %+v, %v; stopped %d times", p, err, *stopped)
	}
}

// A job of several days continues as a new run before its history is too long.
func TestJob_Long_GoesOnAsANewRun(t *testing.T) {
	t.Parallel()
	env, worked, _ := jobRun(t, "running")
	env.ExecuteWorkflow(jobs.Job, jobs.Input{ID: "x"})
	if err := env.GetWorkflowError(); !workflow.IsContinueAsNewError(err) || *worked < 100 || *worked > 600 {
		t.Errorf("ended with %v after %d stretches, want it to continue as a new run", err, *worked)
	}
}

func TestInput_WorkflowID(t *testing.T) {
	t.Parallel()
	if got := (jobs.Input{ID: "retry-1a2b3c4d"}).WorkflowID(); got != "job:retry-1a2b3c4d" {
		t.Errorf("got %q", got)
	}
}

// The note of a job is written by a person. The Temporal UI renders it as Markdown, so it must not become a link.
func TestProgress_NoteOfAPerson_IsText(t *testing.T) {
	t.Parallel()
	p := jobs.Progress{State: "paused", Note: "[see](https://evil.example) *now*", Items: 3, Done: 1}
	if got, want := p.String(), "**\\[see](https://evil.example) \\*now\\***\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}
