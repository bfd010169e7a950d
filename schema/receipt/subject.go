package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

const setAccountSQL = `
insert into event_subjects (receipt_id, object, main, account) values ($1, '', true, $2)
    on conflict (receipt_id, object) do update set account = excluded.account where event_subjects.account <> excluded.account`

// Paid is the money of an event that no account owns. Amount is in minor units of Currency.
type Paid struct {
	Object   string
	Amount   int64
	Currency string
}

const setPaidSQL = `
insert into event_subjects (receipt_id, object, main, amount, currency) values ($1, $2, true, $3, $4)
    on conflict (receipt_id, object) do nothing`

// SetPaid stores the money of an ignored event, so that lists show it. If the event runs later, its billing facts
// replace the row.
func (s *Store) SetPaid(ctx context.Context, receiptID string, p Paid) error {
	return schema.Exec(ctx, s.db, "store the money of receipt "+receiptID, setPaidSQL, receiptID, p.Object, p.Amount,
		p.Currency)
}

// SetAccount stores the account that a flow of the configuration determines for a receipt, so that lists and searches
// find the event by it. The row has no object: a row with an object follows from billing facts, which change it.
func (s *Store) SetAccount(ctx context.Context, receiptID, account string) error {
	return schema.Exec(ctx, s.db, "store the account of receipt "+receiptID, setAccountSQL, receiptID, account)
}
