package billing

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Entry is a booking of finance. ProviderAccount is the connected account, "" for the provider's own.
type Entry struct {
	Mode, Account, ProviderAccount, Object, Invoice, Kind string
	// Amount and Tax are in minor units of Currency.
	Amount, Tax int64
	Currency    string
	// Settlement is nil where nothing has told.
	Settlement *Settlement
	// SettlementUnknown says why it is nil, though it was asked for; else "".
	SettlementUnknown string
	// Reference is what finance calls it.
	Reference string
	EffectKey string
}

// Settlement is what a movement comes to on the provider's balance, in minor units of its currency. Amount has the sign
// of the movement, and Fee is what the provider keeps of it, negative for what it gives back. Net is Amount less Fee.
type Settlement struct {
	Amount   int64  `json:"amount"`
	Fee      int64  `json:"fee"`
	Net      int64  `json:"net"`
	Currency string `json:"currency"`
}

// Settled is the settlement of a movement with a fee.
func Settled(amount, fee int64, currency string) *Settlement {
	return &Settlement{Amount: amount, Fee: fee, Net: amount - fee, Currency: currency}
}

// Reversed is the settlement of what takes all of a movement back; nil for nil.
func (s *Settlement) Reversed() *Settlement {
	if s == nil {
		return nil
	}
	return Settled(-s.Amount, -s.Fee, s.Currency)
}

// RecordEntry is the statement that records an entry; one that is recorded stays as it is.
func RecordEntry(e Entry) ledger.Statement {
	return ledger.Statement{SQL: financeEntrySQL, Args: []any{
		e.EffectKey, e.Mode, e.Account, e.ProviderAccount, e.Object, e.Invoice, e.Kind, e.Amount, e.Tax, e.Currency,
		e.Settlement, e.SettlementUnknown, e.Reference,
	}}
}

// Booked returns the entry that an effect has booked, nil for none.
func (s *Store) Booked(ctx context.Context, effectKey string) (*Entry, error) {
	return one(ctx, s.db, "what is booked by "+effectKey, pgx.RowToAddrOfStructByPos[Entry], bookedSQL, effectKey)
}

// PaymentsFor returns the payments through the provider that an invoice or a checkout session was paid by, ten at most,
// or the payment that object is itself: payment intents, and charges that have none.
func (s *Store) PaymentsFor(ctx context.Context, mode, object string) (payments []string, err error) {
	payments, err = schema.Rows(ctx, s.db, "read what has paid "+object, pgx.RowTo[string], paymentsForSQL, mode,
		object)
	return slices.DeleteFunc(payments, func(id string) bool { return id == "" }), err
}

const paymentsForSQL = `
select id from objects
 where mode = $1 and kind = 'payment' and invoice = $2 and invoice <> '' and not state ? 'OutOfBand'
 union
select case kind when 'payment' then id else payment end from objects
 where mode = $1 and kind in ('payment', 'checkout') and id = $2
 order by 1 limit 10`

const bookedSQL = `
select mode, account, provider_account, object, invoice, kind, amount, tax, currency, settlement, settlement_unknown,
       reference, effect_key
  from finance_entries where effect_key = $1`

const financeEntrySQL = `
insert into finance_entries
       (effect_key, mode, account, provider_account, object, invoice, kind, amount, tax, currency, settlement,
        settlement_unknown, reference)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    on conflict (effect_key) do nothing`
