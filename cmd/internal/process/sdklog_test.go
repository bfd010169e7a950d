package process

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// The level of a line depends on messages in the SDK, so the test makes the SDK log them.
func TestSDKLogger_ActivityFails_IsNoError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	tries := 0
	failOnce := func(context.Context) error {
		if tries++; tries == 1 {
			return errors.New("no connection")
		}
		return nil
	}
	logger := newSDKLogger(slog.New(slog.NewTextHandler(&log, nil)))
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(logger)
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(failOnce, activity.RegisterOptions{Name: "fail once"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "fail once").Get(ctx, nil)
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	logger.Error("something else")
	if got := log.String(); !strings.Contains(got, `level=WARN msg="Activity error."`) || strings.Count(got, "level=ERROR") != 1 ||
		!strings.Contains(got, `level=ERROR msg="something else"`) {
		t.Errorf("log:\n%s", got)
	}
}
