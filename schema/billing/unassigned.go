package billing

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Unassigned counts objects with money that moved and that pawl cannot book, because the account or the purchase is
// unknown.
type Unassigned struct {
	Payments, Refunds, Disputes, Credits, Checkouts int
}

// Unassigned counts the objects that have been unassigned for longer than the given duration.
func (s *Store) Unassigned(ctx context.Context, longer time.Duration) (Unassigned, error) {
	return one(ctx, s.db, "count the unassigned money", pgx.RowToStructByPos[Unassigned], unassignedSQL, longer, "")
}

// Money is a payment, a refund, a dispute, a credit note or a paid checkout session.
type Money struct {
	Mode string `json:"mode"`
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Account is the account in pawl, Payment and Customer are the IDs in the object. Each is empty if it is unknown.
	Account  string `json:"account,omitempty"`
	Payment  string `json:"payment,omitempty"`
	Customer string `json:"customer,omitempty"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Unexplained is the part of the charge's refunded amount that no known refund explains.
	Unexplained int64 `json:"unexplained,omitempty"`
	// Session is the ID of the checkout session, if the object is one or was paid in one.
	Session string `json:"session,omitempty"`
	// Since is the time of the last fact about the object.
	Since time.Time `json:"updated_at"`
	// Unassigned is set while the money is not booked.
	Unassigned bool `json:"unassigned"`
}

// Reason returns the reason why the money is not booked.
func (m Money) Reason() string {
	switch {
	case m.Unexplained > 0:
		return "its charge was refunded, and no event reports this refund"
	case m.Kind == string(fold.KindPayment) && m.Customer != "":
		return "no event shows whether it has paid an invoice"
	case m.Account == "" && m.Session != "":
		return "its checkout session names neither an account nor a customer"
	case m.Account == "":
		return "its account is unknown"
	}
	return "no event shows what its payment was for"
}

// ListUnassigned returns the objects that [Store.Unassigned] counts, oldest first, at most most of them. An empty mode
// means both modes.
func (s *Store) ListUnassigned(ctx context.Context, mode string, longer time.Duration, most int) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read the unassigned money", pgx.RowToStructByPos[Money], listUnassignedSQL, longer,
		"", mode, most)
}

// UnassignedSum is the unassigned money of one mode and one kind of object.
type UnassignedSum struct {
	Mode string
	Kind string
	// Objects is the number of objects. Since is the time of the oldest one.
	Objects int
	Since   time.Time
	// Money is the sum of the amounts in minor units, by currency.
	Money map[string]int64
}

// SumUnassigned adds up the money of the objects that [Store.Unassigned] counts.
func (s *Store) SumUnassigned(ctx context.Context, longer time.Duration) ([]UnassignedSum, error) {
	return schema.List[UnassignedSum](ctx, s.db, "sum the unassigned money", sumUnassignedSQL, longer, "")
}

// Money returns the money objects with the given ID, one per mode. An empty mode means both modes.
func (s *Store) Money(ctx context.Context, mode, id string) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read "+id, pgx.RowToStructByPos[Money], theMoneySQL, id, mode)
}

// Assign returns the fact that a person assigns money to an account. The purchase is the money itself, or the checkout
// session of its payment. The fact is later than the last known fact of the object, and belongs to the same receipt.
func (s *Store) Assign(ctx context.Context, m Money, account, eventID string, at time.Time) (fact.Fact, error) {
	if m.Session != "" && m.Session != m.ID {
		m.ID, m.Kind, m.Payment = m.Session, string(fold.KindCheckout), cmp.Or(m.Payment, m.ID)
	}
	rows, _ := s.db.Query(ctx, lastFactSQL, []string{m.ID, m.Payment}, m.Mode) // CollectExactlyOneRow returns its error
	f, err := pgx.CollectExactlyOneRow(rows, ScanFact)
	if err != nil {
		return f, fmt.Errorf("read the last fact of %s: %w", m.ID, err)
	}
	f.Kind, f.Object, f.Rank, f.Origin, f.Reader, f.Reading = fact.Linked, m.ID, fact.RankChange, fact.FromOperator, 0,
		""
	f.Customer, f.EventType, f.EventID, f.OccurredAt = "", "", eventID, at
	f.Data = fact.Data{Link: &fact.Link{Account: account, Of: m.Kind, Payment: m.Payment}}
	return f, nil
}

// moneyMoved selects objects with money that has moved. It omits refunds that never succeeded, refunds that are part of
// another refund, and sessions with a known invoice: the last two are booked with that refund or invoice.
const moneyMoved = `(kind = 'payment' and state ->> 'Status' = 'succeeded'
    or kind = 'refund' and state ? 'SucceededAt' and not state ? 'Within' or kind = 'dispute' and state ? 'Movements' or kind = 'credit_note'
    or kind = 'checkout' and state ->> 'Mode' = 'payment' and not state ? 'Invoice' and state ? 'PaidAt' and state ->> 'Amount' <> '0')`

// notBooked selects objects that are not booked, because their account or their purchase is unknown. The purchase of a
// credit note is its invoice. It also selects a booked payment with a refund that is not booked.
const (
	unplaced  = `kind in ('payment', 'refund', 'dispute') and (not state ? 'Purchase' or state ? 'Unexplained')`
	notBooked = `(account = '' or ` + unplaced + `) and not state ? 'NotOurs' and ` + moneyMoved
)

// unassigned selects objects with money that has moved and is not booked. The row has not changed for the duration $1.
// The parameter $2 is always "", so that each part of the query uses its index. If a payment has a checkout session,
// only the session is selected.
const unassigned = `
with unassigned as (
  select * from objects where account = $2::text and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout') and ` + notBooked + `
     and not (kind = 'payment' and state ? 'Session') and updated_at < now() - $1::interval
  union all
  select * from objects where account <> '' and ` + unplaced + ` and ` + notBooked + ` and updated_at < now() - $1::interval)`

const unassignedSQL = unassigned + `
select count(*) filter (where kind = 'payment'), count(*) filter (where kind = 'refund'), count(*) filter (where kind = 'dispute'),
       count(*) filter (where kind = 'credit_note'), count(*) filter (where kind = 'checkout') from unassigned`

const moneyColumns = `mode, kind, id, account, payment, customer, (state ->> 'Amount')::bigint, coalesce(state ->> 'Currency', ''), coalesce((state ->> 'Unexplained')::bigint, 0),
       case when kind = 'checkout' then id when kind = 'credit_note' or invoice <> '' or state ->> 'Purchase' in (id, payment) then '' else coalesce(state ->> 'Purchase', '') end, updated_at`

const listUnassignedSQL = unassigned + `
select ` + moneyColumns + `, true from unassigned where $3 = '' or mode = $3 order by updated_at, id limit $4`

var sumUnassignedSQL = unassigned + `, sums as (
  select mode, kind, coalesce(state ->> 'Currency', '') as currency, count(*) as objects, min(updated_at) as since,
         ` + schema.Total("(state ->> 'Amount')::bigint") + ` as amount
    from unassigned group by 1, 2, 3)
select mode, kind, sum(objects)::int as objects, min(since) as since, jsonb_object_agg(currency, coalesce(amount, 0)) as money
  from sums group by mode, kind order by mode, kind`

const theMoneySQL = `
select ` + moneyColumns + `, (` + notBooked + `)
  from objects where id = $1 and ($2 = '' or mode = $2) and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')`
