package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// accessSQL is a single statement, so that version, grants and reasons are consistent. It needs three index lookups by
// account.
const accessSQL = `
select a.mode, a.id, a.customer, a.provider,
       a.target_version, a.target_state, a.target_plan, a.target_quantity, a.target_features, a.held,
       (select jsonb_agg(jsonb_build_object('object', g.object, 'plan', g.plan, 'quantity', g.quantity, 'add_ons', g.add_ons,
               'expected_end_at', g.until, 'ends_at', g.ends, 'event', g.because) order by g.object)
          from grants g where g.mode = a.mode and g.account = a.id),
       (select jsonb_agg(s.state order by s.updated_at desc, s.id) from subscriptions s where s.mode = a.mode and s.account = a.id)
  from accounts a where a.mode = any($1) and a.id = $2 order by a.mode`

// ReadAccess returns the access, the grants and the subscriptions of the accounts with the ID. An empty mode means both
// modes. The other fields are empty.
func ReadAccess(ctx context.Context, db schema.Querier, id, mode string) ([]Account, error) {
	return schema.Rows(ctx, db, "read the access of "+id, func(row pgx.CollectableRow) (a Account, err error) {
		var states []fold.Subscription
		x := &a.Access
		err = row.Scan(&a.Mode, &a.ID, &a.Customer, &a.Provider, &x.Version, &x.State, &x.Plan, &x.Quantity,
			&x.Features, &x.Held, &a.Grants, &states)
		for _, s := range states {
			a.Subscriptions = append(a.Subscriptions, subscription(s))
		}
		return a, err
	}, accessSQL, modesOf(mode), id)
}
