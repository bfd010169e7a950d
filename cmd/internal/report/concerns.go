package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Concern is a current problem that no event shows.
type Concern struct {
	// What is the kind: "paused", "refused", "subscriber", "meaning", "untold", "endpoint", "failing", "unconsumed",
	// "repeated", "unclaimed", "unmapped", "schedule" or "workers". Name is the subject.
	What string `json:"what"`
	Name string `json:"name"`
	// Since is the start of the problem. It is absent if the start is unknown.
	Since *time.Time `json:"since,omitempty"`
	Says  string     `json:"says"`
	// Command is the next pawl command, without the name of the program.
	Command string `json:"command"`
}

const (
	// recently is the period in which rejected deliveries count.
	recently = time.Hour
	// unworked is how long an event may wait before pawl checks for workers. A healthy run takes milliseconds.
	unworked = time.Minute
	// untoldFor is how long the delivery of a notification may take.
	untoldFor = time.Minute
	// askTemporal is the timeout of the query. It keeps the report fast if Temporal is unavailable.
	askTemporal = 3 * time.Second
)

// Concerns returns the current problems of each kind. Rejected deliveries count for an hour. It queries Temporal for
// workers only if an event has waited for longer than a minute.
func Concerns(ctx context.Context, cfg *config.Config, o *operator.Operator,
	waiting []timeline.Cause) ([]Concern, error) {
	concerns := []Concern{}
	pauses, err := pause.Now(ctx, o.DB)
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		concerns = append(concerns, Concern{"paused", p.Name, &p.Since, string(p.Kind) + " " + p.Words(),
			"resume " + Resumable(p.Kind, p.Name) + " --why REASON"})
	}
	refusals, err := rejection.New(o.DB).Recent(ctx, time.Now().Add(-recently))
	if err != nil {
		return nil, err
	}
	for _, r := range refusals {
		concerns = append(concerns, Concern{"refused", r.Source, &r.Since,
			fmt.Sprintf("%d deliveries of the last hour: %s", r.Count, r.Class),
			"rejections list --source " + operator.ShellWord(r.Source)})
	}
	untaken, err := outbox.New(o.DB).Refused(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range untaken {
		name, said, _ := strings.Cut(strings.TrimPrefix(u.Error, "subscriber "), ": ")
		concerns = append(concerns, Concern{"subscriber", name, &u.Since,
			fmt.Sprintf("%d news wait, tried %d times: %s", u.Events, u.Attempts, said), "sinks check"})
	}
	proposals, err := billing.Proposals(ctx, o.DB)
	if err != nil {
		return nil, err
	}
	for _, m := range proposals {
		concerns = append(concerns, Concern{"meaning", m.Hash, nil,
			m.ProposedBy + " proposes another meaning of the facts than that in force",
			"meaning diff --hash " + m.Hash})
	}
	untold, err := notice.New(o.DB).Unsent(ctx, untoldFor)
	if err != nil {
		return nil, err
	}
	for _, u := range untold {
		concerns = append(concerns, Concern{"untold", u.Sink, &u.Since,
			output.Plural(u.Messages, "message") + " not taken" + output.Because(u.Error), "sinks check"})
	}
	ofSources, err := sources(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	concerns = slices.Concat(concerns, ofSources, schedules(ctx, o))
	for _, w := range waiting {
		if time.Since(w.Oldest) < unworked {
			continue
		}
		if says := nobodyWorks(ctx, o); says != "" {
			concerns = append(concerns, Concern{"workers", o.TaskQueue, nil, says, "doctor"})
		}
		break
	}
	return concerns, nil
}

// sources returns unassigned money, lasting faults of endpoints, sources with failed deliveries, and sources that keep
// delivering parked events.
func sources(ctx context.Context, cfg *config.Config, o *operator.Operator) (concerns []Concern, err error) {
	if concerns, err = unbooked(ctx, cfg, o); err != nil {
		return nil, err
	}
	watched, err := Endpoints(ctx, cfg, o.DB)
	if err != nil {
		return nil, err
	}
	failing, err := Countdowns(ctx, cfg, o.DB)
	if err != nil {
		return nil, err
	}
	for _, f := range failing {
		concerns = append(concerns, Concern{"failing", f.Source, &f.Since, f.Says, "doctor"})
	}
	for _, name := range Unconsumed(cfg) {
		first, found, err := receipt.FirstNotWanted(ctx, o.DB, name)
		if err != nil {
			return nil, err
		}
		if found {
			concerns = append(concerns, Concern{"unconsumed", name, &first,
				"nothing consumes its events, and each is ignored: set sources." + name +
					".relay, or remove the source",
				"events list --status ignored --source " + operator.ShellWord(name)})
		}
	}
	for _, e := range watched {
		for _, f := range e.Findings {
			if f.Kind.Lasts() {
				concerns = append(concerns, Concern{"endpoint", e.Source, &f.Since, f.Says, "doctor"})
			}
		}
	}
	repeated, err := causes{Operator: o}.repeated(ctx)
	for _, r := range repeated {
		concerns = append(concerns, Concern{"repeated", r.Name, &r.Since, r.What, r.Command})
	}
	return concerns, err
}

// schedules returns the schedules that need attention. It returns none if Temporal is unavailable.
func schedules(ctx context.Context, o *operator.Operator) (concerns []Concern) {
	temporal, ok := o.Temporal.(Scheduler)
	if !ok || len(o.Places[operator.Source]) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTemporal)
	defer cancel()
	all, _ := Schedules(ctx, temporal, o.TaskQueue) // events that wait report an unavailable Temporal
	for _, s := range all {
		if says := s.Wants(); says != "" {
			command := "doctor"
			if source, gaps := strings.CutPrefix(s.Name, workflows.ScheduleGaps); gaps && s.Came.Left > 0 {
				command = "gaps " + operator.ShellWord(source) + " --from 3d"
			}
			concerns = append(concerns, Concern{"schedule", s.Name, s.Last, says, command})
		}
	}
	return concerns
}

// Resumable returns the target of a pause in the form that `pawl resume` accepts.
func Resumable(kind pause.Kind, name string) string {
	if consumer, ok := strings.CutPrefix(name, workflows.SinkConsumers+":"); ok && kind == pause.Sink {
		return operator.Consumer + " " + operator.ShellWord(consumer)
	}
	return string(kind) + " " + operator.ShellWord(name)
}

// polled is the part of client.Client that lists the pollers of a task queue.
type polled interface {
	DescribeTaskQueue(ctx context.Context, queue string,
		kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

// nobodyWorks returns the reason why no worker processes the events, or "" if one does.
func nobodyWorks(ctx context.Context, o *operator.Operator) string {
	switch worked, err := worked(ctx, o); {
	case err != nil:
		return "Temporal does not answer: " + TemporalSays(err)
	case worked:
		return ""
	}
	return "nobody works on the task queue: start pawl worker, or pawl ingress --worker"
}

// worked reports whether a worker polls the task queue. It returns an error if Temporal is unavailable.
func worked(ctx context.Context, o *operator.Operator) (bool, error) {
	queues, ok := o.Temporal.(polled)
	if !ok {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTemporal)
	defer cancel()
	described, err := queues.DescribeTaskQueue(ctx, o.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	return err == nil && slices.ContainsFunc(described.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return time.Since(p.GetLastAccessTime().AsTime()) <= QuietPoller
	}), err
}

// QuietPoller is how old the last poll of a running worker can be. A poll lasts up to a minute.
const QuietPoller = 90 * time.Second

// TemporalSays returns Temporal's error on one line.
func TemporalSays(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || serviceerror.ToStatus(err).Code() == codes.DeadlineExceeded {
		return "it gave no answer in time"
	}
	return output.FirstLine(err)
}
