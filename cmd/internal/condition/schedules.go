package condition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// schedule is the kind of condition that a Temporal schedule needs attention. It returns nothing if Temporal is
// unavailable, because the kind no-worker reports that.
var schedule = Kind{
	Name: "schedule", Runbook: "schedules",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		temporal, ok := r.Temporal.(Scheduler)
		if !ok || len(r.Places[decide.Source]) == 0 {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, askTemporal)
		defer cancel()
		all, _ := Schedules(ctx, temporal, r.TaskQueue)
		for _, s := range all {
			says := s.Wants()
			if says == "" {
				continue
			}
			c := notice.Condition{Name: s.Name, Severity: notice.Info, Message: "schedule " + s.Name, Detail: says,
				Command: "doctor"}
			if s.Last != nil {
				c.Since = *s.Last
			}
			if source, gaps := strings.CutPrefix(s.Name, schedules.Gaps); gaps && s.Came.Left > 0 {
				c.Command = backfillCommand(source)
			}
			list = append(list, c)
		}
		return list, nil
	},
}

// Schedule is the state of one of pawl's schedules in Temporal.
type Schedule struct {
	// Name is the ID of the schedule without the name of the task queue.
	Name string
	// Paused is set if a person has paused the schedule. Note is the note of this person.
	Paused bool
	Note   string
	// Last is the time of the last run, or nil. Came is the result of this run. Failed is set if this run failed.
	Last   *time.Time
	Came   schedules.Result
	Failed bool
	// Next is the time of the next run, or nil if no run is planned.
	Next *time.Time
}

// Wants returns why a person should check the schedule, or "".
func (s Schedule) Wants() string {
	switch {
	case s.Paused:
		return "it is paused" + output.WithReason(s.Note)
	case s.Failed:
		return "its last run failed: " + s.Came.Message
	case s.Came.Left > 0:
		return s.Came.Message
	}
	return ""
}

// Scheduler is the part of Temporal's client.Client that reads schedules.
type Scheduler interface {
	ScheduleClient() client.ScheduleClient
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	DescribeWorkflowExecution(ctx context.Context, workflowID,
		runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Schedules returns the schedules that belong to a task queue, sorted by name. The list may be some seconds old.
func Schedules(ctx context.Context, c Scheduler, queue string) (found []Schedule, err error) {
	list, err := c.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	for err == nil && list.HasNext() {
		var entry *client.ScheduleListEntry
		if entry, err = list.Next(); err != nil {
			break
		}
		name, ours := strings.CutPrefix(entry.ID, queue+":")
		if !ours {
			continue
		}
		s := Schedule{Name: name, Paused: entry.Paused, Note: entry.Note}
		if len(entry.NextActionTimes) > 0 {
			s.Next = &entry.NextActionTimes[0]
		}
		if n := len(entry.RecentActions); n > 0 {
			s.Last = &entry.RecentActions[n-1].ActualTime
			s.read(ctx, c, entry.RecentActions[n-1].StartWorkflowResult)
		}
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b Schedule) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// read reads the result of a run. The result is empty if Temporal has deleted the run.
func (s *Schedule) read(ctx context.Context, c Scheduler, run *client.ScheduleWorkflowExecution) {
	if run == nil {
		return
	}
	described, err := c.DescribeWorkflowExecution(ctx, run.WorkflowID, run.FirstExecutionRunID)
	if err != nil {
		return
	}
	switch status := described.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		s.Came.Message = "it is running"
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		_ = c.GetWorkflow(ctx, run.WorkflowID, run.FirstExecutionRunID).Get(ctx, &s.Came)
	default:
		s.Failed, s.Came.Message = true, fmt.Sprintf("%s is %s", run.WorkflowID, strings.ToLower(status.String()))
	}
}
