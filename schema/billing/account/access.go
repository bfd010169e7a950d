package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// accessSQL is one statement, so that version, grants and reasons are of one moment. Its keys are those of accounts:
// it costs three looks into indexes.
const accessSQL = `
select a.mode, a.id, a.customer, a.provider,
       a.target_version, a.target_state, a.target_plan, a.target_quantity, a.target_features, a.held,
       (select jsonb_agg(to_jsonb(g) order by g.object) from grants g where g.mode = a.mode and g.account = a.id),
       (select jsonb_agg(s.state order by s.updated_at desc, s.id) from subscriptions s where s.mode = a.mode and s.account = a.id)
  from accounts a where a.mode = any($1) and a.id = $2 order by a.mode`

// ReadAccess returns the accounts with our ID and a mode ("" for both): what each may use, with its grants and its
// subscriptions. Their other fields are left out.
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
