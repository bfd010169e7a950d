package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Failing is an effect of an event that pawl tries again, with the error of its last attempt.
type Failing struct {
	Event   string
	Mode    string
	Account string
	// Object is the main object of the event, such as an invoice. Number is its number.
	Object, Number string
	Amount         *int64
	Currency       string
	Key, Kind      string
	// State is uncertain if the effect may have happened. Otherwise the effect is tried again.
	State    string
	Attempts int
	Error    string
	// Since is the time of the first attempt.
	Since time.Time
}

// failingSQL reads the events that have waited longest.
const failingSQL = `
select r.event_id as event, r.mode, coalesce(about.account, '') as account, coalesce(about.object, '') as object, coalesce(about.number, '') as number,
       about.amount, coalesce(about.currency, '') as currency, e.key, e.kind, e.state, e.attempts, e.error, e.tried_since as since
  from (select id, event_id, mode from receipts where status = 'retrying' and mode = $1 order by received_at limit $2) r
  join effects e on e.receipt_id = r.id and e.state in ('claimed', 'failed', 'uncertain') and e.error <> ''
  left join lateral (select object, account, number, amount, currency from event_subjects where receipt_id = r.id and main limit 1) about on true
 order by e.tried_since, e.key limit $2`

// ReadFailing returns at most limit failing effects of the events with status retrying of a mode, the oldest first.
func ReadFailing(ctx context.Context, db schema.Querier, mode string, limit int) ([]Failing, error) {
	return schema.List[Failing](ctx, db, "read the failing effects", failingSQL, mode, limit)
}
