package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// SkippedEntry is a finance entry that a person skipped: its money moved and is not booked. Its other fields are as in
// [ListedEntry].
type SkippedEntry struct {
	Key             string    `json:"entry"`
	Mode            string    `json:"mode"`
	Account         string    `json:"account"`
	ProviderAccount string    `json:"provider_account"`
	Kind            string    `json:"kind"`
	Object          string    `json:"object"`
	Invoice         string    `json:"invoice"`
	Number          string    `json:"number"`
	Amount          int64     `json:"amount"`
	Tax             int64     `json:"tax"`
	Currency        string    `json:"currency"`
	Cash            int64     `json:"cash"`
	OccurredAt      time.Time `json:"occurred_at"`
	Event           string    `json:"event"`
	// Actor is the person who skipped the entry, and Reason the reason.
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// PerhapsBooked is set if finance may have booked the entry: an attempt had no answer.
	PerhapsBooked bool      `json:"perhaps_booked"`
	SkippedAt     time.Time `json:"skipped_at"`
}

// Signed is [ListedEntry.Signed].
func (e SkippedEntry) Signed() int64 { return signed(e.Kind, e.Amount) }

// RecordSkipped returns the statement that stores an entry of an event that a person has skipped. perhaps is set if
// finance may have booked it. The statement stores nothing if the effect of the entry is not skipped, or if the entry
// is stored already.
func RecordSkipped(e fold.Entry, event, actor, reason string, perhaps bool) ledger.Statement {
	return ledger.Statement{SQL: recordSkippedSQL, Args: []any{e.EffectKey, e.Mode, e.Account, e.ProviderAccount,
		e.Kind, e.Object, e.Invoice, e.Amount, e.Tax, e.Currency, e.Cash, e.OccurredAt, event, actor, reason, perhaps}}
}

const recordSkippedSQL = `
insert into skipped_entries (effect_key, mode, account, provider_account, kind, object, invoice, amount, tax, currency, cash, occurred_at, event_id, actor, reason, perhaps_booked)
select $1, $2, $3, $4, $5, $6, $7, $8::bigint, $9::bigint, $10, $11::bigint, $12::timestamptz, $13, $14, $15, $16
 where (select state from effects where key = $1) = 'skipped'
    on conflict (effect_key) do nothing`

// skippedSince selects the skipped entries of a filter.
const skippedSince = `
  from skipped_entries e
 where e.mode = $1 and e.kind = any($2) and ($3 = '' or e.account = $3) and e.occurred_at >= $4 and e.occurred_at < $5`

const skippedSQL = `
select e.effect_key, e.mode, e.account, e.provider_account, e.kind, e.object, e.invoice,
       ` + numberOf + `,
       e.amount, e.tax, e.currency, e.cash, e.occurred_at, e.event_id, e.actor, e.reason, e.perhaps_booked, e.skipped_at` + skippedSince + `
   and (e.occurred_at, e.effect_key) < ($6, $7) order by e.occurred_at desc, e.effect_key desc limit $8`

// SkippedEntries returns the skipped entries that match f. The entry with the latest movement comes first.
func SkippedEntries(ctx context.Context, db DB, f EntryFilter) ([]SkippedEntry, error) {
	until, after := f.page()
	return schema.Rows(ctx, db, "list skipped entries", pgx.RowToStructByPos[SkippedEntry], skippedSQL, f.Mode,
		f.kinds(), f.Account, f.Since, until, after, f.After.Key, f.Limit)
}

// SkippedSum is the total of the skipped entries in one currency. Amount has the sign of [SkippedEntry.Signed], Cash is
// the money that moved. Both omit the entries that are perhaps booked; PerhapsBooked is the amount of these.
type SkippedSum struct {
	Currency string `json:"currency"`
	Entries  int64  `json:"entries"`
	Amount   int64  `json:"amount"`
	Cash     int64  `json:"cash"`
	// PerhapsBooked has the sign of Amount.
	PerhapsBooked int64 `json:"perhaps_booked"`
}

const signedAmount = `case when e.kind in ('refund', 'credit', 'reversal') then -e.amount else e.amount end`

var sumSkipped = `
select e.currency, count(*), ` + schema.Total("case when e.perhaps_booked then 0 else "+signedAmount+" end") + `,
       ` + schema.Total("case when e.perhaps_booked then 0 else e.cash end") + `,
       ` + schema.Total("case when e.perhaps_booked then "+signedAmount+" else 0 end") + skippedSince + ` group by e.currency order by e.currency`

// SkippedSums adds up the skipped entries that match f by currency, in alphabetical order.
func SkippedSums(ctx context.Context, db DB, f EntryFilter) ([]SkippedSum, error) {
	return schema.Rows(ctx, db, "add up skipped entries", pgx.RowToStructByPos[SkippedSum], sumSkipped, f.Mode,
		f.kinds(), f.Account, f.Since, schema.Until(f.Until))
}
