package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing/account"
)

// findTraces returns the data about a customer, by the provider's customer ID, or about a guest by the checkout
// session.
func findTraces(ctx context.Context, d *Decision) (*account.Traces, string, error) {
	t, err := account.FindTraces(ctx, d.o.DB, d.Target, d.Mode)
	if err != nil || t == nil {
		return nil, "", cmp.Or(err, unknown("no customer %q: write the provider's ID, cus_…, or of a guest the checkout session's; `pawl accounts show` finds it by what the customer quotes", d.Target))
	}
	return t, "customer/" + t.Mode + "/" + t.Customer, nil
}

// tracesOf returns the counts for the audit trail. They contain no personal data.
func tracesOf(t *account.Traces) map[string]any {
	return map[string]any{"mode": t.Mode, "address": len(t.Addresses) > 0, "bodies": len(t.Bodies),
		"requests": t.Requests, "rejections": len(t.Rejections)}
}

// forgets describes the erased data.
func forgets(t *account.Traces) string {
	return fmt.Sprintf("%d addresses, %d bodies, %d kept requests and %d refused requests of %s (%s) are erased; facts, ledger and audit trail stay",
		len(t.Addresses), len(t.Bodies), t.Requests, len(t.Rejections), t.Customer, t.Mode)
}

// forgetRule erases the personal data of a customer and writes the audit record in one transaction. It refuses while an
// event about the customer is in progress, because its run may need the payload.
var forgetRule = rule[*account.Traces, nothing]{
	find: findTraces,
	check: func(_ context.Context, d *Decision, t *account.Traces) (*change, error) {
		if open := t.Open(); len(open) > 0 {
			return nil, d.refuse("has %d events that are not at rest, %s among them: wait for their end, or decide about them. `pawl events list --object %s` shows them", len(open), open[0], d.Target)
		}
		return &change{
			target: d.Target, before: tracesOf(t), after: map[string]any{"mode": t.Mode},
			do: func(ctx context.Context, tx pgx.Tx) error {
				err := t.AtRest(ctx, tx)
				if errors.Is(err, account.ErrNotAtRest) {
					err = d.refuse("has an event that was begun just now: wait for its end")
				}
				if err == nil && !d.preview {
					err = t.Forget(ctx, tx)
				}
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Decision, t *account.Traces, r recorded) (string, nothing, error) {
		if r.repeated {
			return "it is forgotten", nothing{}, nil
		}
		return forgets(t), nothing{}, nil
	},
	forecast: func(_ context.Context, _ *Decision, t *account.Traces, p *Preview) error {
		p.Says = forgets(t)
		return nil
	},
}

// exportRule returns the personal data of a customer, after it has written the audit record.
var exportRule = rule[*account.Traces, *account.Traces]{
	find: findTraces,
	check: func(_ context.Context, d *Decision, t *account.Traces) (*change, error) {
		return &change{target: d.Target, before: tracesOf(t)}, nil
	},
	answer: func(ctx context.Context, d *Decision, t *account.Traces, _ recorded) (string, *account.Traces, error) {
		return "it is shown", t, t.Read(ctx, d.o.DB)
	},
}
