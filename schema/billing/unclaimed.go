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

// Unclaimed counts money that moved and is not booked because its account or its purchase is unknown.
type Unclaimed struct {
	Payments, Refunds, Disputes, Credits, Checkouts int
}

// Unclaimed counts the objects that have been unclaimed for longer than a duration.
func (s *Store) Unclaimed(ctx context.Context, longer time.Duration) (Unclaimed, error) {
	return one(ctx, s.db, "money of nobody", pgx.RowToStructByPos[Unclaimed], unclaimedSQL, longer, "")
}

// Money is a payment, a refund, a dispute, a credit note or a paid checkout session.
type Money struct {
	Mode string `json:"mode"`
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Account is the known account. Payment and Customer are the IDs in the object. Each may be empty.
	Account  string `json:"account,omitempty"`
	Payment  string `json:"payment,omitempty"`
	Customer string `json:"customer,omitempty"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Untold is the refunded amount of the charge that no refund explains.
	Untold int64 `json:"untold,omitempty"`
	// Session is the checkout session itself, or the checkout session of the payment, or empty.
	Session string `json:"session,omitempty"`
	// Since is the time of the last fact about it.
	Since time.Time `json:"since"`
	// Unclaimed is set while it is not booked.
	Unclaimed bool `json:"unclaimed"`
}

// Why returns why it is not booked.
func (m Money) Why() string {
	switch {
	case m.Untold > 0:
		return "its charge says what is refunded of it, and no event tells of the refund"
	case m.Kind == string(fold.KindPayment) && m.Customer != "":
		return "nothing tells whether it has paid an invoice"
	case m.Account == "" && m.Session != "":
		return "its checkout session names neither an account nor a customer"
	case m.Account == "":
		return "nothing tells whose it is"
	}
	return "nothing tells what its payment was for"
}

// ListUnclaimed lists the objects of [Store.Unclaimed], oldest first, with a limit. An empty mode means both modes.
func (s *Store) ListUnclaimed(ctx context.Context, mode string, longer time.Duration, most int) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read money of nobody", pgx.RowToStructByPos[Money], listUnclaimedSQL, longer, "",
		mode, most)
}

// UnclaimedSum is the sum of the unclaimed money of a mode and a kind.
type UnclaimedSum struct {
	Mode string
	Kind string
	// Objects is their number, Since the time of the oldest one.
	Objects int
	Since   time.Time
	// Money is the sum in minor units by currency.
	Money map[string]int64
}

// SumUnclaimed adds up the objects of [Store.Unclaimed].
func (s *Store) SumUnclaimed(ctx context.Context, longer time.Duration) ([]UnclaimedSum, error) {
	return schema.List[UnclaimedSum](ctx, s.db, "sum the money of nobody", sumUnclaimedSQL, longer, "")
}

// Money returns the money object with an ID. An empty mode means both modes.
func (s *Store) Money(ctx context.Context, mode, id string) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read "+id, pgx.RowToStructByPos[Money], theMoneySQL, id, mode)
}

// Claim returns the fact of a person who assigns money to an account. The purchase is the money itself, or the checkout
// session of its payment. The fact follows the last known fact of the object and belongs to its receipt.
func (s *Store) Claim(ctx context.Context, m Money, account, eventID string, at time.Time) (fact.Fact, error) {
	if m.Session != "" && m.Session != m.ID {
		m.ID, m.Kind, m.Payment = m.Session, string(fold.KindCheckout), cmp.Or(m.Payment, m.ID)
	}
	rows, _ := s.db.Query(ctx, lastFactSQL, []string{m.ID, m.Payment}, m.Mode) // CollectExactlyOneRow returns its error
	f, err := pgx.CollectExactlyOneRow(rows, ScanFact)
	if err != nil {
		return f, fmt.Errorf("read what is known of %s: %w", m.ID, err)
	}
	f.Kind, f.Object, f.Rank, f.Origin, f.Reader, f.Reading = fact.Linked, m.ID, fact.RankChange, fact.FromOperator, 0,
		""
	f.Customer, f.EventType, f.EventID, f.OccurredAt = "", "", eventID, at
	f.Data = fact.Data{Link: &fact.Link{Account: account, Of: m.Kind, Payment: m.Payment}}
	return f, nil
}

// moneyMoved is the condition of money that has moved. A refund that never succeeded moved nothing. A refund within
// another refund is booked with that one. A session with a known invoice is booked with the invoice.
const moneyMoved = `(kind = 'payment' and state ->> 'Status' = 'succeeded'
    or kind = 'refund' and state ? 'SucceededAt' and not state ? 'Within' or kind = 'dispute' and state ? 'Movements' or kind = 'credit_note'
    or kind = 'checkout' and state ->> 'Mode' = 'payment' and not state ? 'Invoice' and state ? 'PaidAt' and state ->> 'Amount' <> '0')`

// notBooked is the condition of money that has moved and is not booked, because its account or its purchase is unknown.
// The purchase of a credit note is its invoice. A booked payment may miss a refund.
const (
	unplaced  = `kind in ('payment', 'refund', 'dispute') and (not state ? 'Purchase' or state ? 'Untold')`
	notBooked = `(account = '' or ` + unplaced + `) and not state ? 'NotOurs' and ` + moneyMoved
)

// unclaimed is the condition of money that is not booked and has not changed for a duration $1. The account is a
// parameter $2 with the value "", because each part has an index. A checkout session represents its payment.
const unclaimed = `
with unclaimed as (
  select * from objects where account = $2::text and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout') and ` + notBooked + `
     and not (kind = 'payment' and state ? 'Session') and updated_at < now() - $1::interval
  union all
  select * from objects where account <> '' and ` + unplaced + ` and ` + notBooked + ` and updated_at < now() - $1::interval)`

const unclaimedSQL = unclaimed + `
select count(*) filter (where kind = 'payment'), count(*) filter (where kind = 'refund'), count(*) filter (where kind = 'dispute'),
       count(*) filter (where kind = 'credit_note'), count(*) filter (where kind = 'checkout') from unclaimed`

const moneyColumns = `mode, kind, id, account, payment, customer, (state ->> 'Amount')::bigint, coalesce(state ->> 'Currency', ''), coalesce((state ->> 'Untold')::bigint, 0),
       case when kind = 'checkout' then id when kind = 'credit_note' or invoice <> '' or state ->> 'Purchase' in (id, payment) then '' else coalesce(state ->> 'Purchase', '') end, updated_at`

const listUnclaimedSQL = unclaimed + `
select ` + moneyColumns + `, true from unclaimed where $3 = '' or mode = $3 order by updated_at, id limit $4`

var sumUnclaimedSQL = unclaimed + `, sums as (
  select mode, kind, coalesce(state ->> 'Currency', '') as currency, count(*) as objects, min(updated_at) as since,
         ` + schema.Total("(state ->> 'Amount')::bigint") + ` as amount
    from unclaimed group by 1, 2, 3)
select mode, kind, sum(objects)::int as objects, min(since) as since, jsonb_object_agg(currency, coalesce(amount, 0)) as money
  from sums group by mode, kind order by mode, kind`

const theMoneySQL = `
select ` + moneyColumns + `, (` + notBooked + `)
  from objects where id = $1 and ($2 = '' or mode = $2) and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')`
