package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

const setAccountSQL = `
insert into event_subjects (receipt_id, object, main, account) values ($1, '', true, $2)
    on conflict (receipt_id, object) do update set account = excluded.account where event_subjects.account <> excluded.account`

// SetAccount stores the account that a flow of the configuration determines for a receipt, so that lists and searches
// find the event by it. The row has no object: a row with an object follows from billing facts, which change it.
func (s *Store) SetAccount(ctx context.Context, receiptID, account string) error {
	return schema.Exec(ctx, s.db, "store the account of receipt "+receiptID, setAccountSQL, receiptID, account)
}
