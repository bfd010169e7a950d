package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Scheduled is a scheduled action in a list across accounts.
type Scheduled struct {
	Due
	Mode    string `json:"mode"`
	Account string `json:"account"`
	// Number is the number of the object's invoice, or "".
	Number string `json:"number"`
	// Amount is the open amount of the invoice of a reminder, and the amount of the object of a booking, in minor units
	// of Currency. It is null for other actions, and for the booking of a correction.
	Amount   *int64 `json:"amount"`
	Currency string `json:"currency"`
	// EventStatus is the status of the event. No action starts by itself before its event is done.
	EventStatus string `json:"event_status"`
	// PausedSource is the source of the event if it is paused, or "". No action of the event starts by itself while
	// it is paused.
	PausedSource string `json:"paused_source"`
}

// Parked reports whether the action waits for a decision about its event.
func (s Scheduled) Parked() bool { return s.EventStatus == "needs_review" || s.EventStatus == "dead" }

// ScheduledFilter filters scheduled actions. Mode is required.
type ScheduledFilter struct {
	Mode, Account string
	// Since and Until bound the time of the action. Until is exclusive. The zero value is no bound.
	Since, Until time.Time
	// After is the last action of the previous page. Only its At, Object and Kind are read.
	After Due
	// Limit is the maximum number of actions.
	Limit int
}

// shownScheduled completes the actions of the page.
const shownScheduled = `
select d.at, d.why, d.object, d.step, d.event_id, d.mode, d.account, coalesce(about.number, ''), about.amount, coalesce(about.currency, ''),
       coalesce(r.status, ''), coalesce((select p.name from pauses p where p.kind = 'source' and p.name = r.source and p.until is null), '')
  from page d
  left join lateral (select status, source from receipts where id = d.receipt_id) r on true
  left join lateral (
       select state ->> 'Number' as number, (state ->> 'Remaining')::bigint as amount, state ->> 'Currency' as currency
         from invoices where mode = d.mode and id = d.object and d.why = 'dunning'
       union all
       select (select i.state ->> 'Number' from invoices i where i.mode = o.mode and i.id = o.invoice), (o.state ->> 'Amount')::bigint, o.state ->> 'Currency'
         from objects o where o.id = d.object and o.mode = d.mode and d.why = 'book' and d.owner = d.object
        limit 1) about on true
 order by d.at, d.object, d.why`

const scheduledSQL = `
with page as materialized (
    select * from due where mode = $1 and at >= $2 and at < $3 and (at, object, why) > ($4, $5, $6)
     order by at, object, why limit $7)` + shownScheduled

const accountScheduledSQL = `
with page as materialized (
    select * from due where account = $8 and mode = $1 and at >= $2 and at < $3 and (at, object, why) > ($4, $5, $6)
     order by at, object, why limit $7)` + shownScheduled

// ListScheduled returns the scheduled actions that match f, earliest first. The list begins with actions that are due
// and have not started.
func ListScheduled(ctx context.Context, db schema.Querier, f ScheduledFilter) ([]Scheduled, error) {
	sql := scheduledSQL
	args := []any{f.Mode, f.Since, schema.Until(f.Until), f.After.At, f.After.Object, f.After.Kind, f.Limit}
	if f.Account != "" {
		sql, args = accountScheduledSQL, append(args, f.Account)
	}
	return schema.Rows(ctx, db, "list scheduled actions", pgx.RowToStructByPos[Scheduled], sql, args...)
}
