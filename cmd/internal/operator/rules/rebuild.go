package rules

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// CheckRows computes the rows of an account from its facts with the active rules, and returns the differences from
// the stored rows. If no rules are active, it uses p. It returns an error if the account does not exist.
func CheckRows(ctx context.Context, pool *pgxpool.Pool, of billing.Scope, p fact.Policy,
	told rebuild.Progress) (found []rebuild.Difference, err error) {
	if of != (billing.Scope{}) {
		objects, err := billing.ObjectsOf(ctx, pool, of.Mode, of.Account)
		if err != nil {
			return nil, err
		}
		if len(objects) == 0 {
			return nil, fmt.Errorf("no account %q in mode %s: `pawl accounts show` finds the ID and mode of an account by a customer, an invoice, a payment or an e-mail address", of.Account, of.Mode)
		}
	}
	if p, err = billing.ActiveRules(ctx, pool, p); err != nil {
		return nil, err
	}
	is, err := foresee(ctx, pool, rebuild.Request{Scope: of, Rules: p}, told)
	return is.Rows, err
}

// Drift lists the differences between the rows of an account and its facts.
type Drift struct {
	Scope       billing.Scope
	Differences []rebuild.Difference
}

// RebuildResult is the result of a rebuild.
type RebuildResult struct {
	// Folded counts the objects that were recomputed and written.
	Folded int `json:"computed"`
}

// Rebuild recomputes the rows of an account from its facts. Its Found is a [*Drift].
var Rebuild = decide.Verb{
	Name: "rebuild", Target: "ACCOUNT", Rule: rebuildRule, Flags: []decide.Flag{decide.FlagMode},
	Short: "Recompute the rows of an account from its facts",
}

// rebuildRule overwrites the rows of an account with the rows that its facts imply. [CheckRows] returns the [*Drift].
var rebuildRule = decide.Rule[*Drift, *RebuildResult]{
	Find: decide.Shown(func(drift *Drift) string { return "rebuild/" + account.ItemTarget(drift.Scope) }),
	Check: func(_ context.Context, _ *decide.Decision, drift *Drift) (*decide.Change, error) {
		rows := make([]string, len(drift.Differences))
		for i, d := range drift.Differences {
			rows[i] = d.String()
		}
		return &decide.Change{
			Target: drift.Scope.Account,
			Before: map[string]any{"mode": drift.Scope.Mode, "differences": rows},
			After:  map[string]any{"differences": []string{}},
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, drift *Drift, _ decide.Recorded) (string, *RebuildResult,
		error) {
		n, err := rebuild.Account(ctx, d.Operator.DB, drift.Scope,
			billing.Recompute{Cause: billing.CauseRows, Policy: d.Operator.Policy})
		return fmt.Sprintf("%d objects are recomputed", n), &RebuildResult{n}, err
	},
}
