package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// CheckRows folds the facts by the meaning in force and returns the differences to the rows. It uses p if no meaning is
// in force. It returns an error if the account does not exist.
func CheckRows(ctx context.Context, pool *pgxpool.Pool, of billing.Scope, p fact.Policy,
	told rebuild.Progress) (found []rebuild.Difference, err error) {
	if of != (billing.Scope{}) {
		objects, err := billing.ObjectsOf(ctx, pool, of.Mode, of.Account)
		if err != nil {
			return nil, err
		}
		if len(objects) == 0 {
			return nil, fmt.Errorf("no account %q of mode %s: `pawl accounts show` finds one by what it has, and says its ID and mode", of.Account, of.Mode)
		}
	}
	if p, err = billing.InForce(ctx, pool, p); err != nil {
		return nil, err
	}
	err = foldAnew(ctx, pool, func(conn *pgx.Conn) (err error) {
		found, err = rebuild.Check(ctx, conn, of, p, time.Time{}, told)
		return err
	})
	return found, err
}

// foldAnew calls fold with a new connection that has the settings of the pool.
func foldAnew(ctx context.Context, pool *pgxpool.Pool, fold func(*pgx.Conn) error) error {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fold(conn)
}

// Reach lists the accounts and tasks that change if accounts are folded by other rules or facts.
type Reach struct {
	// Counts counts the accounts by kind of change.
	Counts   map[rebuild.Change]int `json:"counts"`
	Accounts []rebuild.Impact       `json:"accounts"`
	// Tasks lists the tasks that would be opened or closed.
	Tasks []rebuild.TaskChange `json:"tasks"`
}

func newReach() Reach {
	return Reach{map[rebuild.Change]int{}, []rebuild.Impact{}, []rebuild.TaskChange{}}
}

// foresee adds the changes that fold forecasts.
func (r *Reach) foresee(ctx context.Context, pool *pgxpool.Pool, fold func(*pgx.Conn) (rebuild.Forecast, error)) error {
	var found rebuild.Forecast
	err := foldAnew(ctx, pool, func(conn *pgx.Conn) (err error) {
		found, err = fold(conn)
		return err
	})
	r.Tasks = append(r.Tasks, found.Tasks...)
	r.Accounts = append(r.Accounts, rebuild.Impacts(found.Differences)...)
	for _, hit := range r.Accounts {
		r.Counts[hit.Change]++
	}
	return err
}

// Drift lists the differences between the rows of an account and its facts.
type Drift struct {
	Scope       billing.Scope
	Differences []rebuild.Difference
}

// RebuildResult is the result of a rebuild.
type RebuildResult struct {
	// Folded counts the objects that were folded and written.
	Folded int `json:"folded"`
}

// rebuildRule overwrites the rows of an account with the result of its facts. [CheckRows] returns the [*Drift].
var rebuildRule = rule[*Drift, *RebuildResult]{
	find: shown(func(drift *Drift) string { return "rebuild/" + targetOf(drift.Scope) }),
	check: func(_ context.Context, _ *Decision, drift *Drift) (*change, error) {
		rows := make([]string, len(drift.Differences))
		for i, d := range drift.Differences {
			rows[i] = d.String()
		}
		return &change{
			target: drift.Scope.Account,
			before: map[string]any{"mode": drift.Scope.Mode, "differences": rows},
			after:  map[string]any{"differences": []string{}},
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, drift *Drift, _ recorded) (string, *RebuildResult, error) {
		n, err := rebuild.Account(ctx, d.o.DB, drift.Scope,
			billing.Recompute{Cause: billing.CauseRows, Policy: d.o.Policy})
		return fmt.Sprintf("%d objects are folded anew", n), &RebuildResult{n}, err
	},
}
