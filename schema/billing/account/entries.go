package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// EntryKinds lists the kinds of finance entries.
var EntryKinds = []string{"payment", "refund", "dispute", "credit", "reversal", "refund_reversal", "credit_reversal",
	"correction"}

// ListedEntry is a finance entry in a list across accounts. Amounts are in minor units of the currency beside them.
type ListedEntry struct {
	// Key is the effect key of the entry.
	Key     string `json:"entry"`
	Mode    string `json:"mode"`
	Account string `json:"account"`
	// ProviderAccount is the connected account, or "" for the provider's own account.
	ProviderAccount string `json:"provider_account"`
	Kind            string `json:"kind"`
	Object          string `json:"object"`
	Invoice         string `json:"invoice"`
	// Number is the number of the invoice, or "".
	Number string `json:"number"`
	// Amount is the booked amount, and Tax the tax that it contains. Both have no sign, except in disputes and
	// corrections.
	Amount   int64  `json:"amount"`
	Tax      int64  `json:"tax"`
	Currency string `json:"currency"`
	// Cash is the money that moved: negative if it left, 0 for a reversal and for movements of the customer's balance.
	Cash int64 `json:"cash"`
	// Settlement is the movement on the provider's balance, or null if it is unknown. SettlementUnknown is the reason.
	Settlement        *Settlement `json:"settlement"`
	SettlementUnknown string      `json:"settlement_unknown"`
	// Method is charge, out_of_band, balance or unknown, or "" if the kind implies it.
	Method    string `json:"method"`
	Reference string `json:"reference"`
	// OccurredAt is when the money moved. BookedAt is when finance accepted the entry.
	OccurredAt time.Time `json:"occurred_at"`
	BookedAt   time.Time `json:"booked_at"`
	// Event is the ID of the event that caused the entry.
	Event string `json:"event"`
	// Actor is the person who booked a correction, and Reason the reason. Both are "" for other entries.
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Settlement is a movement on the provider's balance, in minor units of Currency. Net is Amount minus Fee.
type Settlement struct {
	Amount   int64  `json:"amount"`
	Fee      int64  `json:"fee"`
	Net      int64  `json:"net"`
	Currency string `json:"currency"`
}

// Signed returns the booked amount with the sign of its direction: negative for a refund, a credit and a reversal.
func (e ListedEntry) Signed() int64 { return signed(e.Kind, e.Amount) }

// Signed is [ListedEntry.Signed].
func (e Entry) Signed() int64 { return signed(e.Kind, e.Amount) }

func signed(kind string, amount int64) int64 {
	switch kind {
	case "refund", "credit", "reversal":
		return -amount
	}
	return amount
}

// EntryFilter filters entries. Mode is required.
type EntryFilter struct {
	Mode, Account, Kind string
	// Since and Until bound the time at which the money moved. Until is exclusive. The zero value is no bound.
	Since, Until time.Time
	// After is the end of the previous page. A list reads its OccurredAt and Key, sums read its OccurredAt, which is a
	// day, and Currency.
	After ListedEntry
	// Limit is the maximum number of entries or sums.
	Limit int
}

func (f EntryFilter) kinds() []string {
	if f.Kind != "" {
		return []string{f.Kind}
	}
	return EntryKinds
}

// page returns the exclusive end of the filter, and the time at which its page begins.
func (f EntryFilter) page() (until, after time.Time) {
	until, after = schema.Until(f.Until), f.After.OccurredAt
	if f.After.Key == "" {
		after = until
	}
	return until, after
}

// numberOf is the number of the invoice of an entry e, or "".
const numberOf = `coalesce((select i.state ->> 'Number' from invoices i where i.mode = e.mode and i.id = coalesce(nullif(e.invoice, ''), e.object)), '')`

// entryFields completes the entries of the page. The person who corrected an entry is in the audit trail: the decision
// precedes the booking.
const entryFields = `
select e.effect_key, e.mode, e.account, e.provider_account, e.kind, e.object, e.invoice,
       ` + numberOf + `,
       e.amount, e.tax, e.currency, e.cash, e.settlement, e.settlement_unknown, e.method, e.reference, e.occurred_at, e.created_at,
       coalesce((select f.event_id from effects f where f.key = e.effect_key), ''), coalesce(by.actor, ''), coalesce(by.reason, '')
  from page e left join lateral (
       select a.actor, a.reason from operator_actions a
        where a.action = 'correct' and a.target = e.object and a.at <= e.created_at and a.before ->> 'mode' = e.mode and e.kind = 'correction'
        order by a.at desc limit 1) by on true
 order by e.occurred_at desc, e.effect_key desc`

// newestEntriesSQL reads the newest entries of each kind, because the index begins with kind and mode.
const newestEntriesSQL = `
with page as materialized (
    select e.* from unnest($2::text[]) k (kind) cross join lateral (
        select * from finance_entries f
         where f.mode = $1 and f.kind = k.kind and f.occurred_at >= $3 and f.occurred_at < $4 and (f.occurred_at, f.effect_key) < ($5, $6)
         order by f.occurred_at desc, f.effect_key desc limit $7) e
     order by e.occurred_at desc, e.effect_key desc limit $7)` + entryFields

const accountEntriesSQL = `
with page as materialized (
    select * from finance_entries f
     where f.account = $8 and f.mode = $1 and f.kind = any($2) and f.occurred_at >= $3 and f.occurred_at < $4 and (f.occurred_at, f.effect_key) < ($5, $6)
     order by f.occurred_at desc, f.effect_key desc limit $7)` + entryFields

// Entries returns the entries that match f. The entry with the latest movement comes first.
func Entries(ctx context.Context, db DB, f EntryFilter) ([]ListedEntry, error) {
	until, after := f.page()
	sql, args := newestEntriesSQL, []any{f.Mode, f.kinds(), f.Since, until, after, f.After.Key, f.Limit}
	if f.Account != "" {
		sql, args = accountEntriesSQL, append(args, f.Account)
	}
	return schema.Rows(ctx, db, "list entries", pgx.RowToStructByPos[ListedEntry], sql, args...)
}

// EntrySum is the total of one day (UTC) in one currency. Entries are counted by their own currency, settlements by the
// currency of the provider's balance. No field adds amounts of different currencies.
type EntrySum struct {
	// Day is the start of the day.
	Day      time.Time `json:"starts_at"`
	Currency string    `json:"currency"`
	// Entries counts the entries.
	Entries int64 `json:"entries"`
	// Received and PaidOut add up the incoming and the outgoing money. Cash is their sum.
	Received int64 `json:"received"`
	PaidOut  int64 `json:"paid_out"`
	Cash     int64 `json:"cash"`
	// Fee and Net add up the known settlements in this currency.
	Fee int64 `json:"fee"`
	Net int64 `json:"net"`
	// WithoutSettlement counts the entries that moved money and have no known settlement.
	WithoutSettlement int64 `json:"without_settlement"`
}

// entryRangeSQL returns the times of the first and the last matching entry.
const entryRangeSQL = `
select min(e.first), max(e.last) from unnest($2::text[]) k (kind) cross join lateral (
    select (select occurred_at from finance_entries f where f.mode = $1 and f.kind = k.kind and f.occurred_at >= $3 and f.occurred_at < $4
             order by f.occurred_at, f.effect_key limit 1) as first,
           (select occurred_at from finance_entries f where f.mode = $1 and f.kind = k.kind and f.occurred_at >= $3 and f.occurred_at < $4
             order by f.occurred_at desc, f.effect_key desc limit 1) as last) e`

// sumEntries adds up the entries that the SQL before it selects, by day and currency. A settlement in another currency
// than its entry counts for the other currency.
var sumEntries = `)
select date_trunc('day', m.occurred_at, 'UTC') as day, m.currency, sum(m.entries)::bigint, ` + schema.Total("greatest(m.cash, 0)") + `,
       ` + schema.Total("least(m.cash, 0)") + `, ` + schema.Total("m.cash") + `, ` + schema.Total("m.fee") + `, ` + schema.Total("m.net") + `,
       sum(m.without)::bigint
  from e cross join lateral (
    select e.occurred_at, e.currency, 1 as entries, e.cash, 0::bigint as fee, 0::bigint as net, (e.settlement is null and e.cash <> 0)::int as without
     union all
    select e.occurred_at, e.settlement ->> 'currency', 0, 0, (e.settlement ->> 'fee')::bigint, (e.settlement ->> 'net')::bigint, 0
     where e.settlement is not null) m
 group by 1, 2 order by 1 desc, 2`

var (
	daySums = `
with e as materialized (
    select f.occurred_at, f.currency, f.cash, f.settlement from unnest($2::text[]) k (kind) cross join lateral (
        select * from finance_entries f
         where f.mode = $1 and f.kind = k.kind and f.occurred_at >= $3 and f.occurred_at < $4 offset 0) f` + sumEntries
	accountDaySums = `
with e as materialized (
    select f.occurred_at, f.currency, f.cash, f.settlement from finance_entries f
     where f.account = $5 and f.mode = $1 and f.kind = any($2) and f.occurred_at >= $3 and f.occurred_at < $4` + sumEntries
)

// atOnce is the range of days that one statement adds up.
const atOnce = 31 * 24 * time.Hour

// EntrySums returns the totals by day (UTC) and currency of the entries that match f. The newest day comes first, and
// the currencies of a day are in alphabetical order. It reads the entries of the returned days, and of up to 31 more.
func EntrySums(ctx context.Context, db DB, f EntryFilter) ([]EntrySum, error) {
	since, until := f.Since, schema.Until(f.Until)
	if !f.After.OccurredAt.IsZero() { // continue on the day of the last row, which can have further currencies
		until = earlier(until, f.After.OccurredAt.Add(24*time.Hour))
	}
	spans, err := schema.Rows(ctx, db, "read the first and the last entry",
		pgx.RowToStructByPos[struct{ First, Last *time.Time }], entryRangeSQL, f.Mode, f.kinds(), since, until)
	if err != nil || spans[0].First == nil {
		return nil, err
	}
	first := spans[0].First.UTC().Truncate(24 * time.Hour)
	end := spans[0].Last.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	span := 24 * time.Hour
	var sums []EntrySum
	for ; end.After(first) && len(sums) < f.Limit; end, span = end.Add(-span), min(2*span, atOnce) {
		from := end.Add(-span)
		if since.After(from) {
			from = since
		}
		sql, args := daySums, []any{f.Mode, f.kinds(), from, earlier(end, until)}
		if f.Account != "" {
			sql, args = accountDaySums, append(args, f.Account)
		}
		found, err := schema.Rows(ctx, db, "add up entries", pgx.RowToStructByPos[EntrySum], sql, args...)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s.Day = s.Day.UTC(); !s.Day.Equal(f.After.OccurredAt) || s.Currency > f.After.Currency {
				sums = append(sums, s)
			}
		}
	}
	return sums[:min(len(sums), f.Limit)], nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
