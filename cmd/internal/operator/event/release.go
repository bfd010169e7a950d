package event

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/schema/withheld"
	"github.com/pawlhq/pawl/workflows"
)

// Release implements `pawl effects release`.
var Release = decide.Verb{
	Name: "release-effects", Command: "effects release", Target: "ID", Rule: releaseRule, Previews: true,
	Short: "Execute the withheld effects of one event or of many events",
	Many:  []string{string(receipt.Processed)}, Reason: workflows.CodeBeforeEffects,
	Long: `Execute the withheld effects of an event that occurred before effects began. The event runs again. Each effect happens
once, even if another event has caused it since, because the ledger contains its key. pawl publishes the internal
events, and opens the tasks, except tasks that were closed meanwhile.

Without ID, --status processed and other filters select many events. --dry-run lists them, with the number of effects by
kind and their amounts.`,
}

// releaseRule runs an event again, this time with the effects that were withheld.
var releaseRule = decide.Rule[*timeline.Receipt, *Result]{
	Find: find, Act: act,
	Forecast: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
		return simulateReplay(ctx, d, r, p, true)
	},
	Check: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
		n, err := withheld.Count(ctx, d.Operator.DB, r.ID)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, refuseEvent(d, r, "has no effects that are withheld")
		}
		c, err := rerun(ctx, d, r, true)
		if err != nil {
			return nil, err
		}
		c.After["released"] = n
		replay := c.Do
		c.Do = func(ctx context.Context, tx pgx.Tx) error {
			if err := replay(ctx, tx); err != nil {
				return err
			}
			return billing.Release(ctx, tx, r.Mode, r.ID)
		}
		return c, nil
	},
}
