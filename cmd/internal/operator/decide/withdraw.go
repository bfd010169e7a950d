package decide

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/pending"
)

// Withdraw implements `pawl approvals withdraw`.
var Withdraw = Verb{
	Name: "withdraw", Command: "approvals withdraw", Target: "ID", Needs: role.RightTasks, Rule: withdrawRule,
	Short: "Withdraw a decision that waits for a second person",
	Long: `Withdraw a decision that waits for a second person. The person who requested it can withdraw it, and so can the second
person. The command needs the same right as the decision. pawl status lists the waiting decisions with their IDs.`,
}

// withdrawRule withdraws a decision that waits for a second person.
var withdrawRule = Rule[pending.Decision, *pending.Decision]{
	Find: func(ctx context.Context, d *Decision) (pending.Decision, string, error) {
		p, err := pending.Get(ctx, d.Operator.DB, d.Target)
		if errors.Is(err, schema.ErrNotFound) {
			err = Unknownf("no decision %q waits for a second person: pawl status lists the waiting decisions",
				d.Target)
		}
		return p, "pending/" + d.Target, err
	},
	Check: func(_ context.Context, d *Decision, p pending.Decision) (*Change, error) {
		needs := d.Operator.Verbs.Named(p.Action())
		if d.By != nil && !d.By.May(needs.Rights()...) {
			return nil, Forbids(d.Verb+" of "+needs.Name, needs.Rights()...)
		}
		before := map[string]any{"pending": p.ID, "verb": p.Verb, "requested_by": p.AskedBy}
		if p.Receipt != "" {
			before["receipt"] = p.Receipt
		}
		return &Change{Target: p.Target, Before: before,
			Do: func(ctx context.Context, tx pgx.Tx) error {
				ended, err := pending.End(ctx, tx, p.ID)
				if err == nil && !ended {
					err = d.Refuse("no longer waits for a second person")
				}
				return err
			}}, nil
	},
	Act: func(_ context.Context, _ *Decision, p pending.Decision, _ Recorded) (string, *pending.Decision, error) {
		return p.Action() + " of " + p.Target + " no longer waits for a second person", &p, nil
	},
}

// WithdrawChoice returns the choice to withdraw a pending decision.
func WithdrawChoice(p pending.Decision) Choice {
	return Choose(&Withdraw, p.ID, "",
		"withdraws the "+p.Action()+" that "+p.AskedBy+" requested and that waits for a second person")
}
