package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// gapsBack is how far back the hourly search for missing events reaches. It is three days, because Stripe retries for
// three days.
const gapsBack = 72 * time.Hour

// endpointEvery is how often endpoints are checked. This is often enough: providers
// keep the events of a disabled endpoint for days.
const endpointEvery = 15 * time.Minute

// jitter spreads the runs of schedules that would start at the same full hour.
const jitter = 5 * time.Minute

// retentionEvery is how often expired rows are deleted. Short runs keep the load even.
const retentionEvery = time.Hour

// Schedules returns the configured schedules by ID. A source without an API key has no schedule. The schedule of
// retention always exists, because it also measures the size of the database.
func Schedules(c *config.Config) map[string]client.ScheduleOptions {
	all := map[string]client.ScheduleOptions{}
	add := func(name string, every, catchUp time.Duration, flow, in any) {
		id := schedules.ID(c.Temporal.TaskQueue, name)
		all[id] = client.ScheduleOptions{
			ID: id, CatchupWindow: catchUp,
			Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}, Jitter: jitter},
			Action: &client.ScheduleWorkflowAction{ID: id, Workflow: flow, Args: []any{in},
				TaskQueue: c.Temporal.TaskQueue},
		}
	}
	add(schedules.Retention, retentionEvery, retentionEvery, schedules.ApplyRetention, schedules.RetentionInput{
		Payloads: c.Retention.Payloads, Redeliveries: c.Retention.Redeliveries, Runs: c.Retention.Runs,
		PublishedEvents: c.Retention.PublishedEvents, Jobs: c.Retention.Jobs})
	for name, able := range fetches(c) {
		if !able {
			continue
		}
		if every := c.Policy.Reconcile; every > 0 {
			add(schedules.Reconcile, 24*time.Hour, 12*time.Hour, schedules.ReconcileAccounts,
				schedules.ReconcileInput{Every: every})
		}
		if c.Policy.Backfill != "off" {
			add(schedules.Gaps+name, time.Hour, 30*time.Minute, schedules.FindGaps,
				schedules.GapsInput{Source: name, Back: gapsBack, File: c.Policy.Backfill == "auto"})
		}
		if c.Watches(name) {
			add(schedules.Endpoint+name, endpointEvery, endpointEvery, schedules.WatchEndpoint,
				schedules.EndpointInput{Source: name})
		}
	}
	return all
}

// EnsureSchedules creates and updates the configured schedules in Temporal, and deletes other schedules of pawl. A
// schedule that a person has paused remains paused.
func (n *Node) EnsureSchedules(ctx context.Context) error {
	wanted, scheduler, queue := Schedules(n.Config), n.Temporal.ScheduleClient(), n.Config.Temporal.TaskQueue
	unwanted := map[string]bool{schedules.ID(queue, schedules.Reconcile): true}
	for name := range fetches(n.Config) { // the list of schedules may be a few seconds old
		unwanted[schedules.ID(queue, schedules.Gaps+name)] = true
		unwanted[schedules.ID(queue, schedules.Endpoint+name)] = true
	}
	list, err := scheduler.List(ctx, client.ScheduleListOptions{})
	for err == nil && list.HasNext() {
		var entry *client.ScheduleListEntry
		if entry, err = list.Next(); err == nil && strings.HasPrefix(entry.ID, queue+":") {
			unwanted[entry.ID] = true
		}
	}
	switch serviceerror.ToStatus(err).Code() {
	case codes.OK:
	case codes.PermissionDenied, codes.Unimplemented:
		n.log.WarnContext(ctx, "no permission to list schedules: nothing deletes old rows; run pawl reconcile "+
			"and pawl events backfill yourself", "error", err)
		return nil
	default:
		return fmt.Errorf("list schedules: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if err := ensureSchedule(ctx, scheduler, wanted[id]); err != nil {
			return fmt.Errorf("set up schedule %s: %w", id, err)
		}
		delete(unwanted, id)
	}
	for id := range unwanted {
		err := scheduler.GetHandle(ctx, id).Delete(ctx)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); err != nil && !gone {
			return fmt.Errorf("delete schedule %s: %w", id, err)
		}
		if err == nil {
			n.log.InfoContext(ctx, "a schedule was deleted because it is not configured", "schedule", id)
		}
	}
	return nil
}

func ensureSchedule(ctx context.Context, all client.ScheduleClient, wanted client.ScheduleOptions) error {
	_, err := all.Create(ctx, wanted)
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	return all.GetHandle(ctx, wanted.ID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(is client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			s := is.Description.Schedule
			s.Spec, s.Action = &wanted.Spec, wanted.Action
			s.Policy.CatchupWindow = wanted.CatchupWindow
			return &client.ScheduleUpdate{Schedule: &s}, nil
		},
	})
}
