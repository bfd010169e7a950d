package operator

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/pending"
)

// withdrawRule withdraws a decision that waits for a second person.
var withdrawRule = rule[pending.Decision, *pending.Decision]{
	find: func(ctx context.Context, d *Decision) (pending.Decision, string, error) {
		p, err := pending.Get(ctx, d.o.DB, d.Target)
		if errors.Is(err, schema.ErrNotFound) {
			err = unknown("no decision %q waits for a second person: pawl status lists those that do",
				d.Target)
		}
		return p, "pending/" + d.Target, err
	},
	check: func(_ context.Context, d *Decision, p pending.Decision) (*change, error) {
		needs := VerbNamed(p.Does())
		if d.By != nil && !d.By.May(needs.Rights()...) {
			return nil, Forbids(d.Verb+" of "+needs.Name, needs.Rights()...)
		}
		before := map[string]any{"pending": p.ID, "verb": p.Verb, "asked_by": p.AskedBy}
		if p.Receipt != "" {
			before["receipt"] = p.Receipt
		}
		return &change{target: p.Target, before: before,
			do: func(ctx context.Context, tx pgx.Tx) error {
				ended, err := pending.End(ctx, tx, p.ID)
				if err == nil && !ended {
					err = d.refuse("waits for a second person no more")
				}
				return err
			}}, nil
	},
	answer: func(_ context.Context, _ *Decision, p pending.Decision, _ recorded) (string, *pending.Decision, error) {
		return p.Does() + " of " + p.Target + " waits for a second person no more", &p, nil
	},
}

// withdraws returns the choice to withdraw a pending decision.
func withdraws(p pending.Decision) Choice {
	return choose(VerbWithdraw, p.ID, "",
		"drops the "+p.Does()+" that "+p.AskedBy+" has asked for, and that waits for a second person")
}
