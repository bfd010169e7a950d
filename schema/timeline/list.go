package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
)

// A list is read by the most selective index, so that it costs the same with ten million receipts as with ten
// thousand: an index of the receipts that have a reason, one of sources, types and statuses, or the primary key if all
// pass. Each way is a statement of its own: the plan of one statement with all conditions would fit none of them.
//
// The indexes have no entry for a receipt that is received or being worked on, and a single entry for one that was
// processed without trouble. So the answer to a delivery waits for no write to them.

// shown follows what finds receipts, and reads their columns. It looks up the accounts of only those that are shown.
const shown = `
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`

// summed follows what finds receipts, too: it counts them, and sums their money. The events of one object count once,
// by the newest of them. It sums no money if more pass than the limit.
const summed = `, once as (
    select distinct on (coalesce(nullif(r.object_id, ''), r.id::text)) about.amount,
           coalesce(about.currency, '') as currency
      from receipts r join (select id from found where (select count(*) from found) < $8) f using (id)` + about + `
     where about.amount is not null order by coalesce(nullif(r.object_id, ''), r.id::text), r.id desc
), sums as (select currency, sum(amount)::bigint as amount from once group by currency)
select (select count(*) from found)::int as events,
       (select coalesce(jsonb_object_agg(currency, amount), '{}') from sums) as money`

// newest ends what finds receipts by other conditions than objects.
const newest = `
 order by id desc limit $8
)`

// passing has the conditions of a [Filter], except About. An ID begins with the time when it was made, so that the
// bounds on the ID end the scan.
const passing = `($1 = '' or r.status = $1) and ($2 = '' or r.source = $2) and ($3 = '' or r.type = $3)
   and ($4 = '' or r.reason_code = $4)
   and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7 and r.received_at < $9`

// findAll reads all receipts backwards, for lists that most of them pass.
const findAll = `
with found as (
select r.id from receipts r where ` + passing + newest

// open reads the receipts that are not at rest, by two partial indexes. It is materialized, because they are few and
// may be old: otherwise the planner would look for the newest of them through all receipts, from the newest back.
const open = `open as materialized (
    select r.id from receipts r where r.status in ('processing', 'retrying', 'needs_review', 'dead') and ` + passing + `
    union all
    select r.id from receipts r where r.status = 'received' and ` + passing + `
)`

const findOpen = `
with ` + open + `, found as (select id from open` + newest

// jumping reads, for each source, type and status that pass, the newest receipts of those that are in an index with the
// condition in. It finds them, some hundred, by jumping from one to the next in the index.
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

// findReason reads the receipts that have a reason code.
var findReason = jumping(`r.reason_code = $4 and r.reason_code <> ''`) + `, found as (select id from jumped` + newest

// findKind reads by source, type and status, among the receipts at rest; it adds the open ones.
var findKind = jumping(`r.status in ('processed', 'compensated', 'ignored')`) + `, ` + open + `, found as (
select id from (select id from jumped union all select id from open) either` + newest

// findAbout selects by the facts of events: their objects are the provider's, customers among them. A parked event
// without facts is found by the object that its envelope names. An account may have thousands of objects: they are
// looked up one by one, and so are the newest of the receipts until there are enough. Else Postgres would read all.
const findAbout = `
with told as materialized (
    select id from unnest($10::text[]) about cross join lateral (
           select receipt_id as id from facts where object = about collate "C"
           union all
           select receipt_id from facts where customer = about and customer <> ''
           union all
           select id from receipts where object_id = about and status in ('needs_review', 'dead')
           offset 0) each
     group by id
), found as (
    select t.id from (select id from told where id < $6::uuid order by id desc) t
     cross join lateral (select from receipts r where r.id = t.id and ` + passing + ` offset 0) passed
     order by t.id desc limit $8
)`

// List returns the receipts that pass f, the newest first.
func List(ctx context.Context, db schema.Querier, f Filter) ([]Receipt, error) {
	found, args := f.found()
	return schema.List[Receipt](ctx, db, "list receipts", found+shown, args...)
}

// Sum is how many receipts pass a filter, and their money in minor units by currency, as far as it is known. Several
// about one object count once.
type Sum struct {
	Events int
	Money  map[string]int64
}

// SumUp counts the receipts that pass f, at most one more than most. Beyond most it sums no money.
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
	switch { // the one that reads the fewest rows
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
