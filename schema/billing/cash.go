package billing

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// ObjectCash is the money that the entries about one object have booked, in one currency.
type ObjectCash struct {
	Object, Currency string
	Cash             int64
}

// CashOf adds up the entries about the invoices, payments, sessions, refunds and disputes of customers. It omits credit
// notes, and invoices that were paid out of band: their money is not on the provider's balance.
func (s *Store) CashOf(ctx context.Context, mode string, customers []string) ([]ObjectCash, error) {
	return schema.Rows(ctx, s.db, "read the booked money", pgx.RowToStructByPos[ObjectCash], cashOfSQL, mode,
		customers)
}

// Purchase is the object that a payment paid for: an invoice, a checkout session or the payment itself. It is empty if
// it is unknown.
type Purchase struct {
	Payment, Object string
	NotOurs         bool
}

// Purchases returns, for each of the payments, the object that the payment paid for. It omits payments without an
// event.
func (s *Store) Purchases(ctx context.Context, mode string, payments []string) ([]Purchase, error) {
	return schema.Rows(ctx, s.db, "read purchases", pgx.RowToStructByPos[Purchase], purchasesSQL, mode,
		payments)
}

// EffectsFrom returns when the effects of a mode start. Earlier events have no effects.
func (s *Store) EffectsFrom(ctx context.Context, mode string) (time.Time, error) {
	return one(ctx, s.db, "when effects begin", pgx.RowTo[time.Time], effectsFromSQL, mode)
}

// SkippedEntries returns the keys of the entries that a person or the configuration skipped.
func (s *Store) SkippedEntries(ctx context.Context, keys []string) ([]string, error) {
	return schema.Rows(ctx, s.db, "read skipped entries", pgx.RowTo[string], skippedEntriesSQL, keys)
}

const skippedEntriesSQL = `select key from effects where key = any($1) and state = 'skipped'`

const cashOfSQL = `
select object, currency, sum(cash)::bigint from finance_entries
 where mode = $1 and kind not in ('credit', 'credit_reversal') and object = any (array(
    select i.id from unnest($2::text[]) c
     cross join lateral (select id, state ->> 'How' as how from invoices where customer = c and customer <> '' and mode = $1 offset 0) i
     where coalesce(i.how, '') <> 'out_of_band'
    union all
    select id from objects
     where mode = $1 and customer = any($2) and customer <> '' and kind in ('payment', 'checkout', 'refund')
    union all
    select m ->> 'ID' from objects cross join jsonb_array_elements(state -> 'Movements') m
     where mode = $1 and customer = any($2) and customer <> '' and kind = 'dispute'))
 group by object, currency`

const purchasesSQL = `
select id, coalesce(state ->> 'Purchase', ''), state ? 'NotOurs' from objects
 where mode = $1 and kind = 'payment' and id = any($2)`
