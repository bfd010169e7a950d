package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows/schedules"
)

// Schedule implements the activity of [schedules.ReconcileAccounts]. It can be retried, because its request ID derives
// from the ID of the run.
type Schedule struct{ Operator *decide.Operator }

// reconcileIn is the planned duration of the daily job. The rest of the day is for retries.
const reconcileIn = 20 * time.Hour

// ReconcileDue creates the job that compares the due accounts with Stripe. An account is due if its last comparison
// will be older than in.Every within a day. ReconcileDue creates no job while an earlier job is open, so that no
// account is compared twice. Each job starts with the accounts that were compared longest ago.
func (s *Schedule) ReconcileDue(ctx context.Context, in schedules.ReconcileInput) (r schedules.Result,
	err error) {
	if len(s.Operator.APIs) == 0 {
		return schedules.Result{Message: "no source has an api_key: pawl compares nothing"}, nil
	}
	// the workflow ID is "reconcile-" and the scheduled time
	_, id, _ := strings.Cut(activity.GetInfo(ctx).WorkflowExecution.ID, ":")
	open, err := job.New(s.Operator.DB).Open(ctx)
	if err != nil {
		return r, err
	}
	for _, j := range open {
		if j.Action == job.Reconcile && j.ID != id {
			r.Message = fmt.Sprintf("the job %s is still open, with %d accounts left: no new job starts", j.ID,
				j.Left())
			return r, nil
		}
	}
	const day = 24 * time.Hour
	made, err := ReconcileAll(ctx, s.Operator, account.Uncompared{
		Before: time.Now().Add(day - in.Every), Share: int(in.Every / day),
	}, "")
	if err != nil {
		return r, err
	}
	_, err = job.New(s.Operator.DB).Get(ctx, id)
	if errors.Is(err, schema.ErrNotFound) && len(made.Others) == 0 {
		r.Message = "no account is due"
		return r, nil
	}
	made.Rate = min(max(float64(len(made.Others))/reconcileIn.Seconds(), jobs.LeastRate), jobs.MostRate)
	answer, err := s.Operator.Decide(ctx, decide.Decision{
		Verb: jobs.Start.Name, Target: id, Request: id, Actor: decide.ByTheClock, Args: decide.Args{Found: made},
		Reason: fmt.Sprintf("each account is compared within %g days", in.Every.Hours()/24),
	})
	if err != nil {
		return r, err
	}
	r.Message = id + ": " + answer.Message
	return r, nil
}
