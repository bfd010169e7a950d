package account

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Export implements `pawl export`.
var Export = decide.Verb{
	Name: "export", Command: "export", Target: "CUSTOMER", Needs: role.RightReveal, Rule: exportRule,
	Flags: []decide.Flag{decide.FlagMode}, Short: "Show the personal data of a customer",
	Long: `Show all stored data of a customer that pawl forget would erase: the address, the payloads of all events that contain
the customer, and refused requests. The audit trail records the export without the data. --json prints everything.

CUSTOMER is the provider's ID, cus_…, or for a guest the ID of the checkout session.`,
}

// exportRule returns the personal data of a customer, after it has written the audit record.
var exportRule = decide.Rule[*account.Traces, *account.Traces]{
	Find: findTraces,
	Check: func(_ context.Context, d *decide.Decision, t *account.Traces) (*decide.Change, error) {
		return &decide.Change{Target: d.Target, Before: tracesOf(t)}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, t *account.Traces, _ decide.Recorded) (string, *account.Traces,
		error) {
		return "it is shown", t, t.Read(ctx, d.Operator.DB)
	},
}
