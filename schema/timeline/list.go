package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// A list is read by what narrows it most, so that it costs the same with ten million receipts as with ten thousand: by an
// index of what is unusual, by one of sources and types, or by the receipts' own order where what passes is common. Each way is a
// statement of its own: one with all conditions would be planned for none of them.
//
// The indexes hold nothing of a receipt that is received or being worked on, and of one that was processed as it should be
// a single entry: the way of an event to its answer writes to none of them.

// listed are the columns of what was found, a table of IDs. Whose events they are is asked for those that are shown alone.
func listed(found string) string {
	return `
with found as (` + found + `
 order by id desc limit $8
)
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`
}

// passing are the conditions of a [Filter], less what it is about. An ID holds the time it was made at, so that a list
// ends where its time does.
const passing = `($1 = '' or r.status = $1) and ($2 = '' or r.source = $2) and ($3 = '' or r.type = $3) and ($4 = '' or r.reason_code = $4)
   and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7`

// listSQL reads backwards what is common: every receipt, or those that were processed.
var listSQL = listed(`
select r.id from receipts r where ` + passing)

// open are those that are not at rest, by two partial indexes. It is materialized, as what is few and may be old has to
// be: for the newest of them alone, the planner would look through all receipts, from the newest back.
const open = `open as materialized (
    select r.id from receipts r where r.status in ('processing', 'retrying', 'needs_review', 'dead') and ` + passing + `
    union all
    select r.id from receipts r where r.status = 'received' and ` + passing + `
)`

var listOpenSQL = listed(`with ` + open + ` select id from open`)

// listEndedSQL reads what came to an unusual end.
var listEndedSQL = listed(`
select r.id from receipts r where r.status in ('compensated', 'ignored') and r.status = $1 and ` + passing)

// listReasonSQL reads what has a reason.
var listReasonSQL = listed(`
select r.id from receipts r where r.reason_code = $4 and r.reason_code <> '' and ` + passing)

// listKindSQL reads by source and type: of each pair that there is, and that passes, the newest of what is at rest, and of
// what is not. The pairs are found by jumping from one to the next in their index; there are some hundred.
var listKindSQL = `
with recursive pairs as (
    (select source, type from receipts where status in ('processed', 'compensated', 'ignored') order by source, type limit 1)
    union all
    select after.source, after.type from pairs p
     cross join lateral (select r.source, r.type from receipts r
                          where (r.source, r.type) > (p.source, p.type) and r.status in ('processed', 'compensated', 'ignored')
                          order by r.source, r.type limit 1) after
), ` + open + `, found as (
    (select newest.id from pairs p
      cross join lateral (select r.id from receipts r
                           where r.source = p.source and r.type = p.type and r.status in ('processed', 'compensated', 'ignored')
                             and ($1 = '' or r.status = $1) and ($4 = '' or r.reason_code = $4)
                             and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7
                           order by r.id desc limit $8) newest
      where ($2 = '' or p.source = $2) and ($3 = '' or p.type = $3))
    union all
    select id from open
    order by id desc limit $8
)
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`

// listAboutSQL goes by what events told: the objects are the provider's, its customers among them. A parked event that
// told nothing is found by the object that its envelope names.
var listAboutSQL = `
with told as materialized (
    select receipt_id as id from facts where object = any($9)
    union
    select receipt_id from facts where customer = any($9) and customer <> ''
    union
    select id from receipts where object_id = any($9) and status in ('needs_review', 'dead')
), passed as materialized (
    select r.id from receipts r join told using (id) where ` + passing + `
), found as (
    select id from passed order by id desc limit $8
)
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`

// List returns the receipts that pass f, the newest first.
func List(ctx context.Context, db DB, f Filter) ([]Receipt, error) {
	sql, args := f.statement()
	receipts, err := collect[Receipt](ctx, db, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list receipts: %w", err)
	}
	return receipts, nil
}

// statement is what is asked, with its arguments.
func (f Filter) statement() (sql string, args []any) {
	args = []any{f.Status, f.Source, f.Type, f.ReasonCode, firstID(f.Since), cmp.Or(f.OlderThan, uuid.Max.String()), f.Since, cmp.Or(max(f.Limit, 0), defaultLimit)}
	if sql = f.way(); sql == listAboutSQL {
		args = append(args, f.About)
	}
	return sql, args
}

// way is the statement that reads least of what f lets pass.
func (f Filter) way() string {
	switch {
	case f.About != nil:
		return listAboutSQL
	case f.ReasonCode != "":
		return listReasonSQL
	case slices.Contains([]string{"received", "processing", "retrying", "needs_review", "dead"}, f.Status):
		return listOpenSQL
	case f.Status == "compensated":
		return listEndedSQL
	case f.Source != "" || f.Type != "":
		return listKindSQL
	case f.Status == "ignored":
		return listEndedSQL
	}
	return listSQL
}
