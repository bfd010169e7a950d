package account

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
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
func ReadAccess(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, id, mode string) ([]Account, error) {
	rows, _ := db.Query(ctx, accessSQL, modesOf(mode), id) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Account, err error) {
		var grants, subscriptions []byte
		x := &a.Access
		if err := row.Scan(&a.Mode, &a.ID, &a.Customer, &a.Provider, &x.Version, &x.State, &x.Plan, &x.Quantity,
			&x.Features, &x.Held, &grants, &subscriptions); err != nil {
			return a, err
		}
		var states []billing.Subscription
		for raw, into := range map[*[]byte]any{&grants: &a.Grants, &subscriptions: &states} {
			if err := json.Unmarshal(orNull(*raw), into); err != nil {
				return a, err
			}
		}
		for _, s := range states {
			a.Subscriptions = append(a.Subscriptions, subscription(s))
		}
		return a, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the access of %q: %w", id, err)
	}
	return found, nil
}

func orNull(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}
