package source

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/withheld"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// Watched is a source with an API key, with the checks of its schedules.
type Watched struct {
	decide.APISource
	// Gaps finds the events that were sent to the source and never received.
	Gaps *Gaps
	// Endpoint compares the source with its webhook endpoint.
	Endpoint *EndpointWatch
}

// APIs returns the APIs of the sources for [decide.Operator].APIs.
func APIs(sources map[string]Watched) map[string]decide.APISource {
	apis := map[string]decide.APISource{}
	for name, s := range sources {
		apis[name] = s.APISource
	}
	return apis
}

// Schedule implements the activities of [schedules.FindGaps] and [schedules.WatchEndpoint]. Each activity can be
// retried, because its request ID derives from the ID of the run.
type Schedule struct {
	Operator *decide.Operator
	// Sources holds the sources with an API key.
	Sources map[string]Watched
	Log     *slog.Logger
}

// underway is how long a delivery may take. Events younger than this are not reported as missing.
const underway = 10 * time.Minute

// FindGaps finds the events of the last days that pawl never received, and stores them if in.File is set. It ignores
// the last minutes, because those deliveries may still arrive.
func (s *Schedule) FindGaps(ctx context.Context, in schedules.GapsInput) (r schedules.Result, err error) {
	watched, able := s.Sources[in.Source]
	if !able {
		return schedules.Result{Message: "source " + in.Source + " has no api_key: pawl skips the check"}, nil
	}
	alive, end := context.WithCancel(ctx)
	defer end()
	go job.Heartbeat(alive)
	gaps := *watched.Gaps
	gaps.API = watched.Background()
	started, err := withheld.SourceStarted(ctx, s.Operator.DB, in.Source)
	if err != nil {
		return r, err
	}
	if started == nil {
		r.Message = "source " + in.Source + " has had neither a delivery nor an import: pawl does not search yet"
		return r, nil
	}
	now := gaps.Now()
	report, err := gaps.Find(ctx, now.Add(-in.Back), now.Add(-underway))
	if err != nil {
		return r, err
	}
	between := fmt.Sprintf("between %s and %s", report.From.Format(time.RFC3339), report.To.Format(time.RFC3339))
	n := len(report.Missing)
	switch {
	case n == 0:
		r.Message = "no gap " + between
		return r, nil
	case !in.File:
		s.Log.WarnContext(ctx, "events are missing", "source", in.Source, "events", n)
		r.Left = n
		r.Message = fmt.Sprintf("%d events are missing %s: pawl events backfill %s lists them", n, between, in.Source)
		return r, nil
	}
	// If the activity is retried, it finds only the events that the first attempt has not stored, so the retry makes
	// a new decision.
	info := activity.GetInfo(ctx)
	_, err = s.Operator.Decide(ctx, decide.Decision{
		Verb: Backfill.Name, Target: in.Source, Actor: decide.ByTheClock,
		Request: fmt.Sprintf("%s/%d", info.WorkflowExecution.RunID, info.Attempt),
		Reason:  "policy.backfill is auto", Args: decide.Args{Found: report},
	})
	if err != nil {
		return r, err
	}
	s.Log.WarnContext(ctx, "missing events were stored", "source", in.Source, "events", n)
	r.Message = fmt.Sprintf("%d events were missing %s, and pawl stored them", n, between)
	return r, nil
}

// ExamineEndpoint checks the endpoint of a source, stores the findings, and logs new findings.
func (s *Schedule) ExamineEndpoint(ctx context.Context, in schedules.EndpointInput) (r schedules.Result,
	err error) {
	watched, able := s.Sources[in.Source]
	if !able {
		return schedules.Result{Message: "source " + in.Source + " has no api_key: pawl skips the check"}, nil
	}
	found, err := watched.Endpoint.Find(ctx)
	if err != nil {
		return r, err
	}
	e, fresh, err := endpoint.Keep(ctx, s.Operator.DB, in.Source, found, time.Now().UTC())
	if err != nil {
		return r, err
	}
	for _, f := range fresh {
		s.Log.WarnContext(ctx, "endpoint", "source", in.Source, "finding", string(f.Kind), "message", f.Message)
	}
	r.Message = "the endpoint matches the source"
	if len(e.Findings) > 0 {
		r.Message = e.Message()
	}
	return r, nil
}
