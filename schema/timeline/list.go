package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// A list is read by the most selective index, so that it costs the same with ten million receipts as with ten
// thousand: an index of the unusual receipts, one of sources and types, or the primary key if most receipts pass.
// Each way is a statement of its own: the plan of one statement with all conditions would fit none of them.
//
// The indexes have no entry for a receipt that is received or being worked on, and a single entry for one that was
// processed without trouble. So the answer to a delivery waits for no write to them.

// listed reads the columns of the receipts that found selects by ID. It looks up the accounts of only those that are
// shown.
func listed(found string) string {
	return `
with found as (` + found + `
 order by id desc limit $8
)
select ` + columns + ` from receipts r join found using (id)` + about + ` order by r.id desc`
}

// passing has the conditions of a [Filter], except About. An ID begins with the time when it was made, so that the
// bounds on the ID end the scan.
const passing = `($1 = '' or r.status = $1) and ($2 = '' or r.source = $2) and ($3 = '' or r.type = $3) and ($4 = '' or r.reason_code = $4)
   and r.id >= $5::uuid and r.id < $6::uuid and r.received_at >= $7`

// listSQL reads all receipts backwards, for lists that most of them pass.
var listSQL = listed(`
select r.id from receipts r where ` + passing)

// open reads the receipts that are not at rest, by two partial indexes. It is materialized, because they are few and
// may be old: otherwise the planner would look for the newest of them through all receipts, from the newest back.
const open = `open as materialized (
    select r.id from receipts r where r.status in ('processing', 'retrying', 'needs_review', 'dead') and ` + passing + `
    union all
    select r.id from receipts r where r.status = 'received' and ` + passing + `
)`

var listOpenSQL = listed(`with ` + open + ` select id from open`)

// listEndedSQL reads the receipts that ended as compensated or ignored.
var listEndedSQL = listed(`
select r.id from receipts r where r.status in ('compensated', 'ignored') and r.status = $1 and ` + passing)

// listReasonSQL reads the receipts that have a reason code.
var listReasonSQL = listed(`
select r.id from receipts r where r.reason_code = $4 and r.reason_code <> '' and ` + passing)

// listKindSQL reads by source and type. For each pair that passes, it takes the newest receipts at rest; it adds the
// open ones. It finds the pairs, some hundred, by jumping from one to the next in their index.
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

// listAboutSQL selects by the facts of events: their objects are the provider's, customers among them. A parked event
// without facts is found by the object that its envelope names.
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

// statement returns the SQL of the list and its arguments.
func (f Filter) statement() (sql string, args []any) {
	args = []any{f.Status, f.Source, f.Type, f.ReasonCode, firstID(f.Since), cmp.Or(f.OlderThan, uuid.Max.String()),
		f.Since, cmp.Or(max(f.Limit, 0), defaultLimit)}
	if sql = f.way(); sql == listAboutSQL {
		args = append(args, f.About)
	}
	return sql, args
}

// way returns the statement that reads the fewest rows for f.
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
