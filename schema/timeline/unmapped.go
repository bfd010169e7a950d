package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Unmapped describes a connected account that no source maps to an account, although money was paid there. Its events
// are ignored.
type Unmapped struct {
	Mode, Account string
	Events        int
	Since         time.Time
	// Money is the paid amount in minor units by currency. It is the sum of the invoices or the sum of the payments,
	// whichever is larger, because an invoice and its payment are two events about the same money.
	Money map[string]int64
}

// unmappedSQL reads at most 10,000 events, to limit the cost for a platform that maps no connected account.
var unmappedSQL = `
with ignored as materialized (
    select r.mode, r.account, split_part(r.type, '.', 1) as kind, r.received_at, paid.object, paid.amount, paid.currency
      from (select id, mode, account, type, received_at from receipts
             where reason_code = 'account_not_mapped' and reason_code <> '' and status || '' = 'ignored' limit 10000) r
      left join lateral (select object, amount, currency from event_subjects where receipt_id = r.id and main limit 1) paid on true
), once as (
    select mode, account, kind, object, currency, max(amount) as amount
      from ignored where amount is not null group by 1, 2, 3, 4, 5
), sums as (
    select mode, account, kind, currency, ` + schema.Total("amount") + ` as amount from once group by 1, 2, 3, 4
), money as (
    select mode, account, currency, max(amount) as amount from sums group by 1, 2, 3)
select mode, account, count(*)::int as events, min(received_at) as since, (select jsonb_object_agg(m.currency, m.amount)
         from money m where (m.mode, m.account) = (i.mode, i.account)) as money
  from ignored i where (mode, account) in (select mode, account from money)
 group by mode, account order by mode, since, account limit 50`

// ReadUnmapped returns the unmapped connected accounts where money was paid, live ones first.
func ReadUnmapped(ctx context.Context, db schema.Querier) ([]Unmapped, error) {
	return schema.List[Unmapped](ctx, db, "read the unmapped connected accounts", unmappedSQL)
}
