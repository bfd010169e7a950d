package billing

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Unclaimed counts money that moved, and is not booked: nothing tells whose it is, or what was paid for.
type Unclaimed struct {
	Payments, Refunds, Disputes, Credits, Checkouts int
}

// Unclaimed counts the objects that have waited for longer than a time for a fact that tells.
func (s *Store) Unclaimed(ctx context.Context, longer time.Duration) (Unclaimed, error) {
	return one(ctx, s.db, "money of nobody", pgx.RowToStructByPos[Unclaimed], unclaimedSQL, longer, "")
}

// Money is a payment, a refund, a dispute, a credit note or a paid checkout session.
type Money struct {
	Mode string `json:"mode"`
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Account is the one that is known, Payment and Customer those that it names; "" for none.
	Account  string `json:"account,omitempty"`
	Payment  string `json:"payment,omitempty"`
	Customer string `json:"customer,omitempty"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Untold is what a charge says is refunded, and no refund tells of.
	Untold int64 `json:"untold,omitempty"`
	// Session is the checkout session that it is, or that its payment was made in; "" for none.
	Session string `json:"session,omitempty"`
	// Since is when a fact last told of it.
	Since time.Time `json:"since"`
	// Unclaimed is set while nobody has booked it.
	Unclaimed bool `json:"unclaimed"`
}

// Why says why it is not booked.
func (m Money) Why() string {
	switch {
	case m.Untold > 0:
		return "its charge says what is refunded of it, and no event tells of the refund"
	case m.Kind == string(kindPayment) && m.Customer != "":
		return "nothing tells whether it has paid an invoice"
	case m.Account == "" && m.Session != "":
		return "its checkout session names neither an account nor a customer"
	case m.Account == "":
		return "nothing tells whose it is"
	}
	return "nothing tells what its payment was for"
}

// ListUnclaimed lists what [Store.Unclaimed] counts, the oldest first, at most so many; in any mode where that is "".
func (s *Store) ListUnclaimed(ctx context.Context, mode string, longer time.Duration, most int) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read money of nobody", pgx.RowToStructByPos[Money], listUnclaimedSQL, longer, "",
		mode, most)
}

// Money returns the money of an ID, in any mode where that is "".
func (s *Store) Money(ctx context.Context, mode, id string) ([]Money, error) {
	return schema.Rows(ctx, s.db, "read "+id, pgx.RowToStructByPos[Money], theMoneySQL, id, mode)
}

// Claim is the fact of a person who gives money to an account: what was paid for it is its own, or the checkout session
// that it was paid in. It comes after the last fact that is known of it, and belongs to the receipt of that.
func (s *Store) Claim(ctx context.Context, m Money, account, eventID string, at time.Time) (Fact, error) {
	if m.Session != "" && m.Session != m.ID {
		m.ID, m.Kind, m.Payment = m.Session, string(kindCheckout), cmp.Or(m.Payment, m.ID)
	}
	rows, _ := s.db.Query(ctx, lastFactSQL, []string{m.ID, m.Payment}, m.Mode) // CollectExactlyOneRow returns its error
	f, err := pgx.CollectExactlyOneRow(rows, scanFact)
	if err != nil {
		return f, fmt.Errorf("read what is known of %s: %w", m.ID, err)
	}
	f.Kind, f.Object, f.Rank, f.Origin, f.Reader, f.Reading = Linked, m.ID, RankChange, FromOperator, 0, ""
	f.Customer, f.EventType, f.EventID, f.OccurredAt = "", "", eventID, at
	f.Data = Data{Link: &LinkFact{Account: account, Of: m.Kind, Payment: m.Payment}}
	return f, nil
}

// moneyMoved is the condition of money that has moved. A refund that never succeeded moved nothing, and what is within
// another is booked by that. A session whose invoice is known is booked by that.
const moneyMoved = `(kind = 'payment' and state ->> 'Status' = 'succeeded'
    or kind = 'refund' and state ? 'SucceededAt' and not state ? 'Within' or kind = 'dispute' and state ? 'Movements' or kind = 'credit_note'
    or kind = 'checkout' and state ->> 'Mode' = 'payment' and not state ? 'Invoice' and state ? 'PaidAt' and state ->> 'Amount' <> '0')`

// notBooked is the condition of money that has moved, and is not booked: nothing tells its account, or what was paid
// for.
// A credit note is for its invoice. Of a payment, a refund may be missing.
const (
	unplaced  = `kind in ('payment', 'refund', 'dispute') and (not state ? 'Purchase' or state ? 'Untold')`
	notBooked = `(account = '' or ` + unplaced + `) and not state ? 'NotOurs' and ` + moneyMoved
)

// unclaimed is what is not booked, and has not changed for a time $1. The account is a parameter $2, which is "": each
// part has an index. A checkout session stands for its payment.
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

const theMoneySQL = `
select ` + moneyColumns + `, (` + notBooked + `)
  from objects where id = $1 and ($2 = '' or mode = $2) and kind in ('payment', 'refund', 'dispute', 'credit_note', 'checkout')`
