package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// UnmappedPrice is a price without a plan in the order that an event is about.
type UnmappedPrice struct {
	Price string `json:"price"`
	// Object is the subscription or the checkout session with the price, and Account its account in pawl, or "".
	Object  string `json:"object"`
	Account string `json:"account"`
	// Amount is the last payment of the order in minor units of Currency. It is absent if nothing was paid.
	Amount   *int64 `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Since is when the task to map the price opened. It is null if no task is open.
	Since *time.Time `json:"task_opened_at"`
	// Active is set if the account has access, by an earlier order or by another one.
	Active bool `json:"has_access"`
}

// unmappedSQL starts from the objects of the event. It adds the invoice and the session of a payment, and the
// subscription of an invoice.
const unmappedSQL = `
with named as materialized (
    select object as id from event_subjects where receipt_id = $2::uuid
), paid as materialized (
    select id from named
     union select unnest(array[p.invoice, p.state ->> 'Purchase']) from named cross join lateral (
          select invoice, state from objects where id = named.id and mode = $1 and kind = 'payment' offset 0) p
), subscribed as materialized (
    select id from paid
     union select i.subscription from paid cross join lateral (select subscription from invoices where mode = $1 and id = paid.id offset 0) i
), orders as materialized (
    select s.* from subscribed cross join lateral (
          select id, account, state from subscriptions where mode = $1 and id = subscribed.id offset 0) s
     union all
    select c.* from paid cross join lateral (
          select id, account, state from objects where id = paid.id and mode = $1 and kind = 'checkout' offset 0) c)
select price, o.id, o.account, coalesce(bill.amount, (o.state ->> 'Amount')::bigint), coalesce(bill.currency, o.state ->> 'Currency', ''),
       (select t.created_at from tasks t where t.mode = $1 and t.kind = 'unknown_price' and t.object = o.account || ':' || price and t.state = (select 'open')),
       coalesce((select a.target_state = 'active' from accounts a where a.mode = $1 and a.id = o.account), false)
  from orders o cross join jsonb_array_elements_text(o.state -> 'Asks') price
  left join lateral (select i.amount, i.currency from invoices i
     where i.mode = $1 and i.subscription = o.id and i.subscription <> '' and i.amount > 0 order by i.period_start desc limit 1) bill on true
 order by price, o.id`

// UnmappedPrices returns the unmapped prices in the orders that the event of a receipt is about.
func UnmappedPrices(ctx context.Context, db schema.Querier, mode, receiptID string) ([]UnmappedPrice, error) {
	return schema.Rows(ctx, db, "read the unmapped prices of receipt "+receiptID, pgx.RowToStructByPos[UnmappedPrice],
		unmappedSQL, mode, receiptID)
}
