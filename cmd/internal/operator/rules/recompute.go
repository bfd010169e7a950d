package rules

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
)

// foresee previews a recomputation on a new connection with the settings of the pool.
func foresee(ctx context.Context, pool *pgxpool.Pool, r rebuild.Request, told rebuild.Progress) (rebuild.Forecast,
	error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return rebuild.Forecast{}, fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return rebuild.Check(ctx, conn, r, told)
}

// Reach lists the accounts that change if other rules or other facts apply.
type Reach struct {
	// Counts is the number of accounts by kind of change.
	Counts   map[rebuild.Change]int `json:"counts"`
	Accounts []rebuild.Impact       `json:"accounts"`
}

func newReach() Reach { return Reach{map[rebuild.Change]int{}, []rebuild.Impact{}} }

// foresee adds the effects of a recomputation on the accounts.
func (r *Reach) foresee(ctx context.Context, pool *pgxpool.Pool, with rebuild.Request, told rebuild.Progress) error {
	is, err := foresee(ctx, pool, with, told)
	r.Accounts = append(r.Accounts, is.Impacts...)
	for _, hit := range r.Accounts {
		r.Counts[hit.Change]++
	}
	return err
}

// makeJob creates, in tx, the job that recomputes the accounts that change and the accounts in others. The ID of the
// job is the request ID. makeJob creates no job if there are no accounts.
func (r *Reach) makeJob(ctx context.Context, tx pgx.Tx, d *decide.Decision, cause billing.Cause,
	filter map[string]string,
	rate float64, others []billing.Scope) error {
	for _, hit := range r.Accounts {
		others = append(others, hit.Scope)
	}
	if len(others) == 0 {
		return nil
	}
	filter["cause"] = string(cause)
	made := jobs.Authored(d, job.Job{ID: d.Request, Action: job.Recompute, Filter: filter, Rate: rate})
	return job.MakeIn(ctx, tx, made, account.Items(others))
}

// Recompute recomputes an account with the active billing rules. It decides one item of a bulk job.
var Recompute = decide.Verb{
	Name: job.Recompute, Target: "MODE/ACCOUNT", Rule: recomputeRule, Short: "Recompute an account from its facts",
}

// recomputeRule recomputes an account with the active billing rules and the newest facts of each event. It decides
// one item of a bulk job; the filter of the job identifies the cause.
var recomputeRule = decide.Rule[billing.Scope, *RebuildResult]{
	Find: account.FindScope,
	Check: func(ctx context.Context, d *decide.Decision, of billing.Scope) (*decide.Change, error) {
		was, err := usedBy(ctx, d.Operator, of)
		return &decide.Change{Target: of.Account, Before: map[string]any{"mode": of.Mode, "uses": was}}, err
	},
	Act: func(ctx context.Context, d *decide.Decision, of billing.Scope, r decide.Recorded) (string, *RebuildResult,
		error) {
		var before struct{ Uses string }
		if err := r.Read(r.Before, &before); err != nil {
			return "", nil, err
		}
		how := billing.Recompute{Cause: billing.CauseRules, Policy: d.Operator.Policy, Job: d.Request}
		if d.Item != nil {
			how.Job, how.Cause = d.Item.Job.ID, billing.Cause(d.Item.Job.Filter["cause"])
		}
		n, err := rebuild.Account(ctx, d.Operator.DB, of, how)
		if err != nil {
			return "", nil, err
		}
		uses, err := usedBy(ctx, d.Operator, of)
		if uses != before.Uses {
			uses = before.Uses + " becomes " + uses
		}
		return uses, &RebuildResult{n}, err
	},
}

// usedBy describes the access of an account.
func usedBy(ctx context.Context, o *decide.Operator, of billing.Scope) (string, error) {
	t, err := billing.New(o.DB).Target(ctx, of.Mode, of.Account)
	return account.Uses(t.Plan, t.Quantity), err
}
