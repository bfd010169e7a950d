package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema"
)

// Each list reads the index that has the fewest matching rows, so that the cost does not grow with the number of
// receipts. This is an index of the receipts with a reason, an index by source, type and status, or for lists without a
// filter the primary key. Each way to search is a statement of its own, because one plan could not suit all filters.
//
// These indexes have no entry for a receipt that is received or in processing, and one entry for a receipt that was
// processed without a reason. The ingress therefore does not write to them before it answers a delivery.

// shown is appended to the SQL that finds receipts. It reads their columns, and the accounts of these receipts only.
const shown = `
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`

// summed is also appended to the SQL that finds receipts. It counts the receipts and adds up their money. If several
// events are about one object, it adds only the amount of the newest one. It adds up no money if more receipts match
// than the limit.
var summed = `, once as (
    select distinct on (coalesce(nullif(r.object_id, ''), r.id::text)) about.amount,
           coalesce(about.currency, '') as currency
      from receipts r join (select id from found where (select count(*) from found) < $8) f using (id)` + about + `
     where about.amount is not null order by coalesce(nullif(r.object_id, ''), r.id::text), r.id desc
), sums as (select currency, ` + schema.Total(`amount`) + ` as amount from once group by currency)
select (select count(*) from found)::int as events,
       (select coalesce(jsonb_object_agg(currency, amount), '{}') from sums) as money`

// newest is the end of the SQL that finds receipts by conditions other than objects.
const newest = `
 order by id desc limit $8
)`

// passing contains the conditions of a [Filter], except About and Accounts. Since and Until become bounds on the ID,
// because an ID begins with its creation time. The bounds end the index scan early.
const passing = `($1 = '' or r.status = $1) and ($2 = '' or r.source = $2) and ($3 = '' or r.type = $3)
   and ($4 = '' or r.reason_code = $4) and ($10 = '' or r.mode = $10)
   and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7 and r.received_at < $9`

// findAll reads all receipts, newest first. It is for filters that most receipts match.
const findAll = `
with found as (
select r.id from receipts r where ` + passing + newest

// open reads the unfinished receipts from two partial indexes. It is materialized because these receipts are few and
// may be old. Otherwise the planner would scan all receipts, newest first.
const open = `open as materialized (
    select r.id from receipts r where r.status in ('processing', 'retrying', 'needs_review', 'dead') and ` + passing + `
    union all
    select r.id from receipts r where r.status = 'received' and ` + passing + `
)`

const findOpen = `
with ` + open + `, found as (select id from open` + newest

// jumping reads the newest matching receipts of each combination of source, type and status, using an index with the
// condition in. There are a few hundred combinations. It finds them by skipping from one to the next in the index.
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
                        and ($10 = '' or r.mode = $10)
                      order by r.id desc limit $8) newest
 where ($1 = '' or k.status = $1) and ($2 = '' or k.source = $2) and ($3 = '' or k.type = $3)
)`
}

// findReason reads the receipts with a reason code.
var findReason = jumping(`r.reason_code = $4 and r.reason_code <> ''`) + `, found as (select id from jumped` + newest

// findKind reads the finished receipts by source, type and status, and all unfinished ones.
var findKind = jumping(`r.status in ('processed', 'compensated', 'ignored')`) + `, ` + open + `, found as (
select id from (select id from jumped union all select id from open) either` + newest

// subjectsOf reads the newest receipts with a subject that has the wanted name in a column, from the index of the
// column, if they pass a condition. A receipt can have several such subjects.
func subjectsOf(column, condition string) string {
	return `
        (select distinct on (s.receipt_id) s.receipt_id as id from event_subjects s
          where s.` + column + ` = wanted.name and s.` + column + ` <> ''
            and ` + condition + `
            and s.receipt_id >= $5::uuid and s.receipt_id < $6::uuid
            and exists (select from receipts r where r.id = s.receipt_id and ` + passing + ` offset 0)
          order by s.receipt_id desc limit $8)`
}

// ofAccounts is the condition of a subject of accounts $12, or of any account.
const ofAccounts = `($12::text[] is null or s.account = any($12))`

// findAbout finds events by their objects $11, which can also be customers and invoice numbers, of accounts $12. It
// finds a parked event without facts by the object in its envelope; objects $13 belong to the accounts.
var findAbout = `
with found as (
    select id from unnest($11::text[]) wanted (name) cross join lateral (` +
	subjectsOf("object", ofAccounts) + `
        union all` + subjectsOf("customer", ofAccounts) + `
        union all` + subjectsOf("number", ofAccounts) + `
        union all
        select r.id from receipts r
         where r.object_id = wanted.name and wanted.name <> '' and r.status in ('needs_review', 'dead') and ` + passing + `
           and ($12::text[] is null or r.object_id = any($13::text[]))
        offset 0) each
     group by id` + newest

// findAccount finds the events of accounts $11, and parked events without facts by the objects $12 of these accounts.
var findAccount = `
with found as (
    select id from (
        select each.id from unnest($11::text[]) wanted (name) cross join lateral (` + subjectsOf("account", "true") + `
            offset 0) each
        union all
        select each.id from unnest($12::text[]) wanted (name) cross join lateral (
            select r.id from receipts r
             where r.object_id = wanted.name and wanted.name <> '' and r.status in ('needs_review', 'dead') and ` + passing + `
            offset 0) each) either
     group by id` + newest

// findOutage finds the events that outage $11 affected. They can also have to be of accounts $12, and about $13, as in
// findAccount with objects $14 and in findAbout.
var findOutage = `
with found as (
select each.id from unnest(array['live', 'test']) wanted (mode) cross join lateral (
       select e.receipt_id as id from outage_events e
        where e.outage = $11::bigint and e.mode = wanted.mode and e.receipt_id >= $5::uuid and e.receipt_id < $6::uuid
          and exists (select from receipts r
                       where r.id = e.receipt_id and ` + passing + `
                         and ($12::text[] is null or ` + hasSubject("account", 12) + ` or ` + parkedObject + `any($14::text[]))
                         and ($13::text[] is null or ` + hasSubject("object", 13) + ` or ` + hasSubject("customer", 13) + `
                              or ` + hasSubject("number", 13) + ` or ` + parkedObject + `any($13)) offset 0)
        order by e.receipt_id desc limit $8) each
 where $10 = '' or wanted.mode = $10` + newest

const parkedObject = `r.status in ('needs_review', 'dead') and r.object_id = `

// hasSubject is true if receipt r has a subject with one of the names of a parameter in a column.
func hasSubject(column string, parameter int) string {
	return fmt.Sprintf(`exists (select from event_subjects s where s.receipt_id = r.id and s.%s = any($%d) and s.%s <> '')`,
		column, parameter, column)
}

const connectedSQL = `
with found as (select id from receipts where account = $1 and account <> '' order by id desc limit $2)` + shown

// OfConnected returns the newest receipts of a connected account, at most most of them.
func OfConnected(ctx context.Context, db schema.Querier, account string, most int) ([]Receipt, error) {
	return schema.List[Receipt](ctx, db, "list the receipts of account "+account, connectedSQL, account, most)
}

// List returns the receipts that match f, the newest first.
func List(ctx context.Context, db schema.Querier, f Filter) ([]Receipt, error) {
	found, args := f.found()
	return schema.List[Receipt](ctx, db, "list receipts", found+shown, args...)
}

// Sum is the number of receipts that match a filter, and the sum of their known amounts in minor units by currency. If
// several receipts are about one object, its amount is added once.
type Sum struct {
	Events int
	Money  map[string]int64
}

// SumUp counts the receipts that match f. It stops after most plus one receipts, and then adds up no money.
func SumUp(ctx context.Context, db schema.Querier, f Filter, most int) (Sum, error) {
	f.Limit = most + 1
	found, args := f.found()
	return schema.One[Sum](ctx, db, "sum up receipts", found+summed, args...)
}

// found returns the SQL that finds the receipts, and the arguments of this SQL.
func (f Filter) found() (sql string, args []any) {
	until, before := schema.Until(f.Until), cmp.Or(f.OlderThan, uuid.Max.String())
	if !f.Until.IsZero() {
		before = min(before, idAt(f.Until.Add(otherClock)))
	}
	args = []any{f.Status, f.Source, f.Type, f.ReasonCode, idAt(f.Since.Add(-otherClock)), before,
		f.Since, cmp.Or(max(f.Limit, 0), defaultLimit), until, f.Mode}
	switch { // use the first case that applies: it reads the fewest rows
	case f.Outage != 0:
		return findOutage, append(args, f.Outage, f.Accounts, f.About, f.Objects)
	case f.About != nil:
		return findAbout, append(args, f.About, f.Accounts, f.Objects)
	case f.Accounts != nil:
		return findAccount, append(args, f.Accounts, f.Objects)
	case f.ReasonCode != "":
		return findReason, args
	case slices.Contains([]string{"received", "processing", "retrying", "needs_review", "dead"}, f.Status):
		return findOpen, args
	case f.Status != "" || f.Source != "" || f.Type != "":
		return findKind, args
	}
	return findAll, args
}
