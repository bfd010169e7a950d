package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// findTraces returns the stored data about a customer, by the provider's customer ID. For a guest, the ID is the ID
// of the checkout session.
func findTraces(ctx context.Context, d *decide.Decision) (*account.Traces, string, error) {
	t, err := account.FindTraces(ctx, d.Operator.DB, d.Target, d.Mode)
	if err != nil || t == nil {
		return nil, "", cmp.Or(err, decide.Unknownf("no customer %q: write the provider's customer ID, cus_…, or for a guest the ID of the checkout session; `pawl accounts show` finds it by an invoice number, a payment or an e-mail address", d.Target))
	}
	return t, "customer/" + t.Mode + "/" + t.Customer, nil
}

// tracesOf returns the numbers of rows for the audit trail. They contain no personal data.
func tracesOf(t *account.Traces) map[string]any {
	return map[string]any{"mode": t.Mode, "address": len(t.Addresses) > 0, "bodies": len(t.Bodies),
		"requests": t.Requests, "rejections": len(t.Rejections)}
}

// forgets describes the erased data.
func forgets(t *account.Traces) string {
	return fmt.Sprintf("%d addresses, %d payloads, %d stored requests and %d refused requests of %s (%s) are erased; facts, ledger and audit trail stay",
		len(t.Addresses), len(t.Bodies), t.Requests, len(t.Rejections), t.Customer, t.Mode)
}

// Forget implements `pawl forget`.
var Forget = decide.Verb{
	Name: "forget", Needs: role.RightAdmin, Command: "forget", Target: "CUSTOMER", Rule: forgetRule,
	Flags: []decide.Flag{decide.FlagMode}, Previews: true, Short: "Erase the personal data of a customer",
	Long: `Erase all stored data of a customer that may be personal: the address, the payloads of all events that contain the
customer, the requests of effects that are not done, and refused requests. Facts, ledger and audit trail contain no
personal data and stay. The command refuses while an event of the customer is in progress. It reads all stored payloads.

Afterwards pawl stores no address for the customer, from any event, import or reconciliation, and sends no e-mail. It
stores the payloads of later events, like all payloads; repeat the command to erase them. Delete the customer at the
provider first.

CUSTOMER is the provider's ID, cus_…, or for a guest the ID of the checkout session.`,
}

// forgetRule erases the personal data of a customer and writes the audit record in one transaction. It refuses while
// an event about the customer is in progress, because the run of that event may need the payload.
var forgetRule = decide.Rule[*account.Traces, decide.Nothing]{
	Find: findTraces,
	Check: func(_ context.Context, d *decide.Decision, t *account.Traces) (*decide.Change, error) {
		if open := t.Open(); len(open) > 0 {
			return nil, d.Refuse("has %d unfinished events, such as %s: wait for their end, or decide about them. `pawl events list --object %s` lists them", len(open), open[0], d.Target)
		}
		return &decide.Change{
			Target: d.Target, Before: tracesOf(t), After: map[string]any{"mode": t.Mode},
			Do: func(ctx context.Context, tx pgx.Tx) error {
				err := t.AtRest(ctx, tx)
				if errors.Is(err, account.ErrNotAtRest) {
					err = d.Refuse("has an event that has just started: wait for its end")
				}
				if err == nil && !d.DryRun {
					err = t.Forget(ctx, tx)
				}
				return err
			},
		}, nil
	},
	Act: func(_ context.Context, _ *decide.Decision, t *account.Traces, r decide.Recorded) (string, decide.Nothing,
		error) {
		if r.Repeated {
			return "the personal data is already erased", decide.Nothing{}, nil
		}
		return forgets(t), decide.Nothing{}, nil
	},
	Forecast: func(_ context.Context, _ *decide.Decision, t *account.Traces, p *decide.Preview) error {
		p.Message = forgets(t)
		return nil
	},
}
