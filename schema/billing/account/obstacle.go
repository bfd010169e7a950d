package account

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Obstacle is a problem that prevents access of an account, or a part of it.
type Obstacle struct {
	Cause Cause `json:"reason"`
	// Object is the ID of the price, subscription, invoice, sink or event that is the problem.
	Object string `json:"object"`
	// Amount is in minor units of Currency. It is absent if the problem has no amount.
	Amount   *int64 `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// At is the next payment attempt of an invoice, the end of a purchase, or the start of a sink's outage. It is
	// absent if it is unknown.
	At *time.Time `json:"reason_at,omitempty"`
	// Detail is the status of a dispute, the reason of a parked event or a failing sink, or the kind of a withheld
	// effect.
	Detail string `json:"detail,omitempty"`
	// Effect is the kind of the effect that parked an event. State is the state of that effect in the ledger, and Error
	// its last failure. They are empty if the event is parked for another reason.
	Effect string `json:"effect,omitempty"`
	State  string `json:"state,omitempty"`
	Error  string `json:"error,omitempty"`
	// Message describes the cause, the amount and the next step for people. Command is the command line of the next
	// step, without the name of the program. It may be empty.
	Message string `json:"message"`
	Command string `json:"command,omitempty"`
}

// Cause is the kind of an [Obstacle].
type Cause string

// The kinds of obstacles.
const (
	UnknownPrice    Cause = "unknown_price"
	UnpaidInvoice   Cause = "unpaid_invoice"
	PurchaseRefused Cause = "purchase_refused"
	ChangeRefused   Cause = "change_refused"
	ParkedEvent     Cause = "parked_event"
	RetryingEvent   Cause = "retrying_event"
	EffectsWithheld Cause = "effects_withheld"
	SinkDown        Cause = "sink_down"
	Disputed        Cause = "disputed"
	PaidBack        Cause = "paid_back"
	OnHold          Cause = "on_hold"
	Ended           Cause = "ended"
)

// stop is a row of obstaclesSQL: an obstacle that is not visible in the objects of the account.
type stop struct {
	Cause                Cause
	Object, Detail       string
	At                   *time.Time
	Amount               *int64
	Currency, Target     string
	Effect, State, Error string
}

// obstaclesSQL reads unmapped prices of checkout sessions, sinks that are down, withheld effects and parked events. It
// searches the events of the newest objects only.
var obstaclesSQL = `
with objects_of as (
    (select id from subscriptions where mode = $1 and account = $2 limit 100)
    union all (select id from invoices where mode = $1 and account = $2 order by occurred_at desc limit 100)
    union all (select id from objects where mode = $1 and account = $2 limit 100)
    union all select customer from accounts where mode = $1 and id = $2 and customer <> '')
(select case r.status when 'retrying' then 'retrying_event' else 'parked_event' end as cause, r.event_id as object,
        coalesce(nullif(r.reason, ''), r.status) as detail, r.received_at as at, null::bigint as amount, '' as currency, r.object_id as target,
        coalesce(e.kind, '') as effect, coalesce(e.state, '') as state, coalesce(e.error, '') as error
   from receipts r
   left join lateral (select kind, state, error from effects where state in ('claimed', 'failed', 'uncertain')
      and key = any(array(select open ->> 'key' from jsonb_array_elements(coalesce(r.waits -> 'effects', '[]')) open)) order by claimed_at, key limit 1) e on true
  where r.status in ('needs_review', 'dead', 'retrying') and r.mode = $1 and r.object_id in (select id from objects_of)
  order by r.received_at limit 10)
union all
select 'unknown_price', o.id, price, null, (o.state ->> 'Amount')::bigint, o.state ->> 'Currency', '', '', '', ''
  from objects o cross join jsonb_array_elements_text(o.state -> 'Asks') price where o.mode = $1 and o.account = $2 and o.kind = 'checkout'
union all
select 'effects_withheld', '', w.kind, min(w.withheld_at), ` + schema.Total("w.amount") + `, w.currency, '', '', '', ''
  from withheld w where w.mode = $1 and w.account = $2 and w.released_at is null
   and not exists (select from effects e where e.key = w.key and e.state in ('done', 'skipped', 'compensated'))
 group by w.kind, w.currency
union all
select 'sink_down', b.sink, b.reason, b.since, null, '', '', '', '', '' from breakers b where b.open and b.sink in ('workspaces', 'workspaces:' || $1)
union all
select 'sink_down', p.name, 'paused: ' || p.why, p.since, null, '', '', '', '', ''
  from pauses p where p.until is null and p.kind = 'sink' and p.name in ('workspaces', 'workspaces:' || $1)`

// readObstacles adds the obstacles. It must run after all other fields are set.
func (a *Account) readObstacles(ctx context.Context, tx pgx.Tx, now time.Time) error {
	stops, err := schema.List[stop](ctx, tx, "read the obstacles of account "+a.ID, obstaclesSQL, a.Mode, a.ID)
	a.Obstacles = []Obstacle{}
	for _, s := range a.Subscriptions {
		a.stoppedBySubscription(s, now)
	}
	for _, i := range a.Invoices {
		a.stoppedByInvoice(i, now)
	}
	if a.Access.Held {
		a.stop(Obstacle{Cause: OnHold, Object: a.ID})
	}
	if !a.active() && len(a.Subscriptions) == 0 {
		for _, g := range a.Grants {
			if g.Ends != nil && !g.Ends.After(now) {
				a.stop(Obstacle{Cause: Ended, Object: g.Object, At: g.Ends})
			}
		}
	}
	behind := a.Access.Version > 0 && (a.Workspace == nil || a.Workspace.Version < a.Access.Version)
	for _, s := range stops {
		if s.Cause == SinkDown && !behind {
			continue // the workspace is up to date
		}
		o := Obstacle{Cause: s.Cause, Object: s.Object, Detail: s.Detail, At: s.At, Amount: s.Amount,
			Currency: s.Currency, Effect: s.Effect, State: s.State, Error: s.Error}
		if i := slices.IndexFunc(a.Invoices, func(i Invoice) bool { return i.ID == s.Target }); i >= 0 {
			o.Amount, o.Currency = &a.Invoices[i].Due, a.Invoices[i].Currency
		}
		a.stop(o)
	}
	return err
}

func (a *Account) active() bool { return a.Access.State == "active" }

func (a *Account) stop(o Obstacle) { a.Obstacles = append(a.Obstacles, o) }

// stoppedBySubscription adds the obstacles of a subscription. It ignores an ended subscription if another object grants
// access.
func (a *Account) stoppedBySubscription(s Subscription, now time.Time) {
	o := Obstacle{Object: s.ID}
	for _, i := range a.Invoices { // newest first
		if i.Subscription == s.ID && i.Paid > 0 {
			o.Amount, o.Currency = &i.Paid, i.Currency
			break
		}
	}
	for _, price := range s.UnknownPrices {
		unknown := o
		unknown.Cause, unknown.Detail = UnknownPrice, price
		a.stop(unknown)
	}
	over := s.EndedAt
	if over == nil && s.EndsAt != nil && !s.EndsAt.After(now) {
		over = s.EndsAt
	}
	switch {
	case s.Withheld: // nothing is granted
		o.Cause = PurchaseRefused
	case s.Refused:
		o.Cause = ChangeRefused
	case a.active():
		return
	case s.PaidBack:
		o.Cause = PaidBack
	case s.Held:
		o.Cause = OnHold
		if d := slices.IndexFunc(a.Adjustments, func(c Adjustment) bool { return c.Kind == "dispute" }); d >= 0 {
			c := a.Adjustments[d]
			o = Obstacle{Cause: Disputed, Object: c.ID, Detail: c.Status, Amount: &c.Amount, Currency: c.Currency}
		}
	case over != nil && s.PastDueSince == nil:
		o = Obstacle{Cause: Ended, Object: s.ID, At: over}
	default:
		return
	}
	a.stop(o)
}

// stoppedByInvoice adds an invoice that the customer has to pay. A payment of the invoice has failed, the invoice is
// overdue, or nothing else grants access.
func (a *Account) stoppedByInvoice(i Invoice, now time.Time) {
	overdue := i.DueAt != nil && !i.DueAt.After(now)
	if i.Status != "open" || i.Due <= i.Paid || i.Attempts == 0 && !overdue && a.active() {
		return
	}
	open := i.Due - i.Paid
	a.stop(Obstacle{Cause: UnpaidInvoice, Object: i.ID, Amount: &open, Currency: i.Currency, At: i.NextAttempt})
}
