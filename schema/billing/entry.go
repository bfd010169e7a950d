package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// RecordEntry returns the statement that stores an entry. The statement does not change an entry that is already
// stored.
func RecordEntry(e fold.Entry) ledger.Statement {
	return ledger.Statement{SQL: financeEntrySQL, Args: []any{
		e.EffectKey, e.Mode, e.Account, e.ProviderAccount, e.Object, e.Invoice, e.Kind, e.Amount, e.Tax, e.Currency,
		e.Cash, e.Settlement, e.SettlementUnknown, e.Method, orNull(e.OccurredAt), e.Reference,
	}}
}

// Booked returns the entry that an effect has booked, or nil.
func (s *Store) Booked(ctx context.Context, effectKey string) (*fold.Entry, error) {
	return one(ctx, s.db, "the entry of "+effectKey, pgx.RowToAddrOfStructByPos[fold.Entry], bookedSQL, effectKey)
}

// PaymentsFor returns the payments that paid an invoice or a checkout session, at most ten. If object is a payment,
// PaymentsFor returns object. Each payment is the ID of a payment intent, or of a charge without a payment intent. It
// omits payments outside of the provider, and payments that are booked as a part of the invoice, unless all payments
// are.
func (s *Store) PaymentsFor(ctx context.Context, mode, object string) (payments []string, err error) {
	payments, err = schema.Rows(ctx, s.db, "read the payments of "+object, pgx.RowTo[string], paymentsForSQL, mode,
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
       settlement_unknown, method, occurred_at, reference, effect_key
  from finance_entries where effect_key = $1`

const financeEntrySQL = `
insert into finance_entries
       (effect_key, mode, account, provider_account, object, invoice, kind, amount, tax, currency, cash, settlement,
        settlement_unknown, method, occurred_at, reference)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, coalesce($15, now()), $16)
    on conflict (effect_key) do nothing`
