package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store reads billing state. Changes go through a transaction that the ledger row shares.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Subscription is what we hold of a subscription.
type Subscription struct {
	Account string `db:"account"`
	Status  string `db:"status"`
	Plan    string `db:"plan"`
	// PeriodStart is nil where no invoice wrote the row.
	PeriodStart *time.Time `db:"period_start" json:",omitempty"`
	PeriodEnd   *time.Time `db:"period_end"`
	// The fence: when and by which event the row was written last, and of which invoice, "" for none.
	FenceAt      time.Time `db:"fence_at"`
	FenceEvent   string    `db:"fence_event"`
	FenceInvoice string    `db:"fence_invoice" json:",omitempty"`
}

// supersedes reports whether what is held is newer than f, so that f must not overwrite it. The later period decides,
// and not the later event, because an invoice may be paid long after its period has begun. Events are compared only
// where the periods do not tell.
func (s Subscription) supersedes(f InvoicePaid) bool {
	switch {
	case s.Status == nothingStands: // what wrote it has been taken back
		return false
	case s.FenceInvoice == f.Invoice: // an invoice never supersedes itself, whichever of its events came first
		return false
	case f.instant() && s.FenceAt.After(f.OccurredAt): // f pays for no time: a later event is enough
		return true
	case s.PeriodStart != nil && !f.PeriodStart.IsZero() && !s.PeriodStart.Equal(f.PeriodStart):
		return s.PeriodStart.After(f.PeriodStart)
	}
	return s.FenceAt.After(f.OccurredAt)
}

// nothingStands is the status of a subscription of which every invoice has been taken back. Whichever invoice comes
// next is then the newest that stands, also when the fence says that it is older.
const nothingStands = "incomplete"

// Terminal reports whether the subscription has ended for good at the provider: it does not reopen
// without a person's review.
func (s Subscription) Terminal() bool {
	return s.Status == "canceled" || s.Status == "incomplete_expired"
}

// Subscription returns what we hold, and false when we hold nothing.
func (s *Store) Subscription(ctx context.Context, mode, id string) (Subscription, bool, error) {
	rows, err := s.pool.Query(ctx, subscriptionSQL, mode, id)
	if err != nil {
		return Subscription{}, false, fmt.Errorf("read subscription %s: %w", id, err)
	}
	held, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Subscription])
	if errors.Is(err, pgx.ErrNoRows) {
		return Subscription{}, false, nil
	}
	if err != nil {
		return Subscription{}, false, fmt.Errorf("read subscription %s: %w", id, err)
	}
	return held, true, nil
}

// AccountOf returns our account of a provider's customer, "" when we hold none.
func (s *Store) AccountOf(ctx context.Context, mode, provider, customer string) (string, error) {
	if customer == "" {
		return "", nil
	}
	var id string
	err := s.pool.QueryRow(ctx, accountSQL, mode, provider, customer).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("read account of customer %s: %w", customer, err)
	}
	return id, nil
}

// SupersededBy returns the event that has written a later state of the fact's subscription, "" for none: the
// fact's plan is then history, and must not overwrite what stands.
func (s *Store) SupersededBy(ctx context.Context, f InvoicePaid) (event string, err error) {
	if f.Subscription == "" {
		return "", nil
	}
	held, found, err := s.Subscription(ctx, f.Mode, f.Subscription)
	if err != nil || !found || !held.supersedes(f) {
		return "", err
	}
	return held.FenceEvent, nil
}

// PlanWithout returns the plan that the account has from its other standing invoices, "" for none: that of the
// fact's own subscription first.
func (s *Store) PlanWithout(ctx context.Context, f InvoicePaid) (string, error) {
	rows, err := s.pool.Query(ctx, standingInvoicesSQL, f.Mode, f.Account, f.Invoice)
	if err != nil {
		return "", fmt.Errorf("read what account %s has paid for: %w", f.Account, err)
	}
	standing, err := pgx.CollectRows(rows, pgx.RowToStructByName[invoice])
	if err != nil {
		return "", fmt.Errorf("read what account %s has paid for: %w", f.Account, err)
	}
	if own := newestOf(standing, f.Subscription); own != nil {
		return own.Plan, nil
	}
	var newest invoice
	for _, other := range standing {
		if newest.ID == "" || newest.PeriodStart == nil || other.PeriodStart != nil && other.PeriodStart.After(*newest.PeriodStart) {
			newest = other
		}
	}
	return newest.Plan, nil
}

// invoice is a paid invoice that stands.
type invoice struct {
	ID           string     `db:"id"`
	Subscription string     `db:"subscription"`
	Plan         string     `db:"plan"`
	PeriodStart  *time.Time `db:"period_start"`
	PeriodEnd    *time.Time `db:"period_end"`
	FenceEvent   string     `db:"fence_event"`
}

// newestOf returns the newest standing invoice of a subscription, nil for none.
func newestOf(standing []invoice, subscription string) *invoice {
	for i := range standing {
		if subscription != "" && standing[i].Subscription == subscription {
			return &standing[i]
		}
	}
	return nil
}
