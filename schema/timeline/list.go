package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
)

// A list reads the most selective index, so that its cost does not grow with the number of receipts: an index of the
// receipts with a reason, an index by source, type and status, or the primary key without a filter. Each way is a
// separate statement, because one plan for all conditions would fit none of them.
//
// The indexes have no entry for a received or processing receipt, and a single entry for a receipt that was processed
// without trouble. So the answer to a delivery waits for no write to them.

// shown follows the SQL that finds receipts, and reads their columns. It looks up the accounts of the shown receipts
// only.
const shown = `
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`

// summed also follows the SQL that finds receipts. It counts them, and sums their money. The events of one object count
// once, with the amount of the newest. It sums no money if more receipts match than the limit.
var summed = `, once as (
    select distinct on (coalesce(nullif(r.object_id, ''), r.id::text)) about.amount,
           coalesce(about.currency, '') as currency
      from receipts r join (select id from found where (select count(*) from found) < $8) f using (id)` + about + `
     where about.amount is not null order by coalesce(nullif(r.object_id, ''), r.id::text), r.id desc
), sums as (select currency, ` + schema.Total(`amount`) + ` as amount from once group by currency)
select (select count(*) from found)::int as events,
       (select coalesce(jsonb_object_agg(currency, amount), '{}') from sums) as money`

// newest ends the SQL that finds receipts by other conditions than objects.
const newest = `
 order by id desc limit $8
)`

// passing contains the conditions of a [Filter], except About. An ID begins with its creation time, so that the bounds
// on the ID end the scan.
const passing = `($1 = '' or r.status = $1) and ($2 = '' or r.source = $2) and ($3 = '' or r.type = $3)
   and ($4 = '' or r.reason_code = $4)
   and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7 and r.received_at < $9`

// findAll reads all receipts from the newest back, for filters that match most of them.
const findAll = `
with found as (
select r.id from receipts r where ` + passing + newest

// open reads the unfinished receipts from two partial indexes. It is materialized because they are few and may be old:
// otherwise the planner would scan all receipts from the newest back.
const open = `open as materialized (
    select r.id from receipts r where r.status in ('processing', 'retrying', 'needs_review', 'dead') and ` + passing + `
    union all
    select r.id from receipts r where r.status = 'received' and ` + passing + `
)`

const findOpen = `
with ` + open + `, found as (select id from open` + newest

// jumping reads the newest receipts of each source, type and status that match, from an index with the condition in. It
// finds the combinations, a few hundred, by skipping from one to the next in the index.
func jumping(in string) string {
	return `
with recursive kinds as (
    (select r.source, r.type, r.status from receipts r where ` + in + ` order by r.source, r.type, r.status limit 1)
    union all
    select after.source, after.type, after.status from kinds k
     cross join lateral (select r.source, r.type, r.status from receipts r
                          where ` + in + ` and (r.source, r.type, r.status) > (k.source, k.type, k.status)
                          order by r.source, r.type, r.status limit 1) after
), jumped as (
    select newest.id from kinds k
 cross join lateral (select r.id from receipts r
                      where ` + in + ` and r.source = k.source and r.type = k.type and r.status = k.status
                        and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7 and r.received_at < $9
                      order by r.id desc limit $8) newest
 where ($1 = '' or k.status = $1) and ($2 = '' or k.source = $2) and ($3 = '' or k.type = $3)
)`
}

// findReason reads the receipts with a reason code.
var findReason = jumping(`r.reason_code = $4 and r.reason_code <> ''`) + `, found as (select id from jumped` + newest

// findKind reads the finished receipts by source, type and status, and the open ones.
var findKind = jumping(`r.status in ('processed', 'compensated', 'ignored')`) + `, ` + open + `, found as (
select id from (select id from jumped union all select id from open) either` + newest

// findAbout finds events by the provider's objects in their facts, including customers. It finds a parked event without
// facts by the object in its envelope. Because an account may have thousands of objects, it looks up each object
// separately, and reads the newest receipts until there are enough. Otherwise Postgres would read all receipts.
const findAbout = `
with matched as materialized (
    select id from unnest($10::text[]) about cross join lateral (
           select receipt_id as id from facts where object = about collate "C"
           union all
           select receipt_id from facts where customer = about and customer <> ''
           union all
           select id from receipts where object_id = about and status in ('needs_review', 'dead')
           offset 0) each
     group by id
), found as (
    select t.id from (select id from matched where id < $6::uuid order by id desc) t
     cross join lateral (select from receipts r where r.id = t.id and ` + passing + ` offset 0) passed
     order by t.id desc limit $8
)`

// List returns the receipts that match f, the newest first.
func List(ctx context.Context, db schema.Querier, f Filter) ([]Receipt, error) {
	found, args := f.found()
	return schema.List[Receipt](ctx, db, "list receipts", found+shown, args...)
}

// Sum is the number of receipts that match a filter, and the sum of their known amounts in minor units by currency.
// Several receipts about one object count once.
type Sum struct {
	Events int
	Money  map[string]int64
}

// SumUp counts the receipts that match f, up to most plus one. If there are more than most, it sums no money.
func SumUp(ctx context.Context, db schema.Querier, f Filter, most int) (Sum, error) {
	f.Limit = most + 1
	found, args := f.found()
	return schema.One[Sum](ctx, db, "sum up receipts", found+summed, args...)
}

// found returns the SQL that finds the receipts, and its arguments.
func (f Filter) found() (sql string, args []any) {
	until, before := endOfTime, cmp.Or(f.OlderThan, uuid.Max.String())
	if !f.Until.IsZero() {
		until, before = f.Until, min(before, idAt(f.Until.Add(otherClock)))
	}
	args = []any{f.Status, f.Source, f.Type, f.ReasonCode, idAt(f.Since.Add(-otherClock)), before,
		f.Since, cmp.Or(max(f.Limit, 0), defaultLimit), until}
	switch { // the first case that applies reads the fewest rows
	case f.About != nil:
		return findAbout, append(args, f.About)
	case f.ReasonCode != "":
		return findReason, args
	case slices.Contains([]string{"received", "processing", "retrying", "needs_review", "dead"}, f.Status):
		return findOpen, args
	case f.Status != "" || f.Source != "" || f.Type != "":
		return findKind, args
	}
	return findAll, args
}
