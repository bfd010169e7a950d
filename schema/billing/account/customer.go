package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Customer is a provider's customer that was seen with an account. Account is the connected account that the customer
// belongs to. It is empty for the platform account.
type Customer struct{ ID, Account string }

const customersSQL = `
select distinct customer, provider_account from facts
 where mode = $1 and provider = $3 and customer <> '' and customer in (
       select customer from accounts where mode = $1 and id = $2
        union select customer from subscriptions where mode = $1 and account = $2
        union select customer from invoices where mode = $1 and account = $2)
 order by 1, 2`

// Customers returns the customers of a provider that were seen with the account.
func Customers(ctx context.Context, db DB, name Name, provider string) ([]Customer, error) {
	return schema.Rows(ctx, db, "read the customers of account "+name.ID, pgx.RowToStructByPos[Customer],
		customersSQL, name.Mode,
		name.ID, provider)
}

// OpenObject is an object that can still change according to its row: an active subscription, an open invoice, a refund
// that can fail, or an open dispute.
type OpenObject struct {
	Kind     string
	ID       string
	Customer string
}

const openObjectsSQL = `
select 'subscription' as kind, id, customer from subscriptions where mode = $1 and account = $2 and not ended
union all
select 'invoice', id, customer from invoices where mode = $1 and account = $2 and status in ('draft', 'open', 'uncollectible')
union all
select 'refund', id, customer from objects where kind = 'refund' and mode = $1 and account = $2 and state ->> 'Status' not in ('failed', 'canceled')
   and coalesce((state ->> 'SucceededAt')::timestamptz, now()) > now() - interval '60 days'
union all
select 'dispute', id, customer from objects where kind = 'dispute' and mode = $1 and account = $2
   and state ->> 'Status' in ('needs_response', 'under_review', 'warning_needs_response', 'warning_under_review')
order by 1 desc, 2`

// OpenObjects returns the objects of an account that can still change.
func OpenObjects(ctx context.Context, db DB, name Name) ([]OpenObject, error) {
	return schema.Rows(ctx, db, "read the open objects of account "+name.ID, pgx.RowToStructByPos[OpenObject],
		openObjectsSQL,
		name.Mode, name.ID)
}
