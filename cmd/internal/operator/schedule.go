package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/withheld"
	"github.com/pawlhq/pawl/workflows"
)

// Scheduled implements the activities of [workflows.ReconcileAccounts] and [workflows.FindGaps]. Each activity can be
// retried, because its request ID derives from the ID of the run.
type Scheduled struct {
	Operator *Operator
	Log      *slog.Logger
}

// byTheClock is the person in the audit records of scheduled decisions.
const byTheClock = "the clock"

// underway is how long a delivery may take. Younger events are not reported as missing.
const underway = 10 * time.Minute

// reconcileIn is the planned duration of a day's job. The rest of the day is for retries.
const reconcileIn = 20 * time.Hour

// ReconcileDue creates the job that compares the accounts that are due. It creates none while an earlier job is open,
// so that no account is compared twice. The accounts that wait longest are compared first on the next day.
func (s *Scheduled) ReconcileDue(ctx context.Context, in workflows.ReconcileInput) (r workflows.ScheduledResult,
	err error) {
	if len(s.Operator.Asked) == 0 {
		return workflows.ScheduledResult{Says: "no source has an api_key: nothing is compared"}, nil
	}
	_, id, _ := strings.Cut(activity.GetInfo(ctx).WorkflowExecution.ID, ":") // "reconcile-" and the scheduled time
	open, err := job.New(s.Operator.DB).Open(ctx)
	if err != nil {
		return r, err
	}
	for _, j := range open {
		if j.Action == job.Reconcile && j.ID != id {
			r.Says = fmt.Sprintf("the job %s is still open, with %d accounts left: none is made", j.ID, j.Left())
			return r, nil
		}
	}
	const day = 24 * time.Hour
	made, err := s.Operator.ReconcileAll(ctx, account.Uncompared{
		Before: time.Now().Add(day - in.Every), Share: int(in.Every / day),
	}, "")
	if err != nil {
		return r, err
	}
	_, err = job.New(s.Operator.DB).Get(ctx, id)
	if errors.Is(err, schema.ErrNotFound) && len(made.Others) == 0 {
		r.Says = "no account is due to be compared"
		return r, nil
	}
	made.Rate = min(max(float64(len(made.Others))/reconcileIn.Seconds(), LeastJobRate), MostJobRate)
	answer, err := s.Operator.Decide(ctx, Decision{
		Verb: VerbStartJob, Target: id, Request: id, Who: byTheClock, Args: Args{Found: made},
		Why: fmt.Sprintf("each account is compared within %g days", in.Every.Hours()/24),
	})
	if err != nil {
		return r, err
	}
	r.Says = id + ": " + answer.Says
	return r, nil
}

// FindGaps finds the events of the last days that were never received, and files them if in.File is set. It ignores the
// last minutes, because those deliveries may still arrive.
func (s *Scheduled) FindGaps(ctx context.Context, in workflows.GapsInput) (r workflows.ScheduledResult, err error) {
	asked, able := s.Operator.Asked[in.Source]
	if !able {
		return workflows.ScheduledResult{Says: "source " + in.Source + " has no api_key: nothing is asked"}, nil
	}
	alive, end := context.WithCancel(ctx)
	defer end()
	go heartbeat(alive)
	gaps := *asked.Gaps
	gaps.API = asked.API.With(behindPatience)
	started, err := withheld.SourceStarted(ctx, s.Operator.DB, in.Source)
	if err != nil {
		return r, err
	}
	if started == nil {
		r.Says = "source " + in.Source + " has had neither a delivery nor an import: nothing is searched yet"
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
		r.Says = "no gap " + between
		return r, nil
	case !in.File:
		s.Log.WarnContext(ctx, "events never came", "source", in.Source, "events", n)
		r.Says, r.Left = fmt.Sprintf("%d events never came %s: pawl gaps %s shows them", n, between, in.Source), n
		return r, nil
	}
	// A retry of the activity finds only the events that the first attempt has not filed, so it is a new decision.
	info := activity.GetInfo(ctx)
	_, err = s.Operator.Decide(ctx, Decision{
		Verb: VerbFileGaps, Target: in.Source, Who: byTheClock,
		Request: fmt.Sprintf("%s/%d", info.WorkflowExecution.RunID, info.Attempt),
		Why:     "policy.gaps files what never came", Args: Args{Found: report},
	})
	if err != nil {
		return r, err
	}
	s.Log.WarnContext(ctx, "events never came, and were taken in", "source", in.Source, "events", n)
	r.Says = fmt.Sprintf("%d events never came %s, and were taken in", n, between)
	return r, nil
}
