package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

const setAccountSQL = `
insert into event_subjects (receipt_id, object, main, account) values ($1, $2, true, $3)
    on conflict (receipt_id, object) do update set account = excluded.account where event_subjects.account <> excluded.account`

// SetAccount stores the account that a flow of the configuration determines for r, so that lists and searches find the
// event by it. A receipt without billing facts has one subject: its object, or "" without an object.
func (s *Store) SetAccount(ctx context.Context, r Receipt, account string) error {
	return schema.Exec(ctx, s.db, "store the account of receipt "+r.ID, setAccountSQL, r.ID, r.ObjectID, account)
}
