package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// RecordEntry is the statement that records an entry. It does not change a recorded entry.
func RecordEntry(e fold.Entry) ledger.Statement {
	return ledger.Statement{SQL: financeEntrySQL, Args: []any{
		e.EffectKey, e.Mode, e.Account, e.ProviderAccount, e.Object, e.Invoice, e.Kind, e.Amount, e.Tax, e.Currency,
		e.Cash, e.Settlement, e.SettlementUnknown, e.Reference,
	}}
}

// Booked returns the entry of an effect, or nil.
func (s *Store) Booked(ctx context.Context, effectKey string) (*fold.Entry, error) {
	return one(ctx, s.db, "what is booked by "+effectKey, pgx.RowToAddrOfStructByPos[fold.Entry], bookedSQL, effectKey)
}

// PaymentsFor returns at most ten payments through the provider for an invoice or a checkout session, or object itself
// if it is a payment: payment intents, and charges without one. It leaves out a payment with its own part of the
// invoice, unless all payments have one.
func (s *Store) PaymentsFor(ctx context.Context, mode, object string) (payments []string, err error) {
	payments, err = schema.Rows(ctx, s.db, "read what has paid "+object, pgx.RowTo[string], paymentsForSQL, mode,
		object)
	return slices.DeleteFunc(payments, func(id string) bool { return id == "" }), err
}

const paymentsForSQL = `
select id from (
    select id, named, min(named) over () as least from objects, lateral (select exists (
        select from invoices i, jsonb_array_elements(coalesce(i.state -> 'PaidBy', '[]')) of
         where i.mode = $1 and i.id = $2 and of ->> 'Payment' = objects.id)::int as named) n
     where mode = $1 and kind = 'payment' and invoice = $2 and invoice <> '' and not state ? 'OutOfBand') payments
 where named = least
 union
select case kind when 'payment' then id else payment end from objects
 where mode = $1 and kind in ('payment', 'checkout') and id = $2
 order by 1 limit 10`

const bookedSQL = `
select mode, account, provider_account, object, invoice, kind, amount, tax, currency, cash, settlement,
       settlement_unknown, reference, effect_key
  from finance_entries where effect_key = $1`

const financeEntrySQL = `
insert into finance_entries
       (effect_key, mode, account, provider_account, object, invoice, kind, amount, tax, currency, cash, settlement,
        settlement_unknown, reference)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    on conflict (effect_key) do nothing`
