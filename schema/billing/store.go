package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/ledger"
)

// Store reads billing state. Changes go through a transaction that the ledger row shares.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Subscription is what we hold of a subscription.
type Subscription struct {
	Account    string     `db:"account"`
	Status     string     `db:"status"`
	Plan       string     `db:"plan"`
	PeriodEnd  *time.Time `db:"period_end"`
	FenceAt    time.Time  `db:"fence_at"`
	FenceEvent string     `db:"fence_event"`
}

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

// Standing is what we hold of the account that a fact is about, as far as it bears on its workspace.
type Standing struct {
	// SupersededBy is the event that has written a later state of the fact's subscription, "" for none:
	// the fact's plan is then history, and must not overwrite what stands.
	SupersededBy string
	// Workspace is the plan that the account's workspace has, "" when it has none.
	Workspace string
}

// Standing returns how the account of a fact stands now.
func (s *Store) Standing(ctx context.Context, f InvoicePaid) (now Standing, err error) {
	err = s.pool.QueryRow(ctx, standingSQL, f.Mode, f.Account, f.Subscription, f.OccurredAt).Scan(&now.Workspace, &now.SupersededBy)
	if err != nil {
		return Standing{}, fmt.Errorf("read how account %s stands: %w", f.Account, err)
	}
	return now, nil
}

// Activation is what ActivateSubscription changed, kept in the ledger so that it can be undone.
type Activation struct {
	// Before is the subscription as it was, nil when it was not there.
	Before *Subscription
	// Superseded says that a newer event had already written the subscription: it was left alone.
	Superseded bool
	// Features are those that this activation switched on and that were off before.
	Features []string
	// Withdrawn are those that the plan before gave and this one does not.
	Withdrawn []string `json:",omitempty"`
}

// ErrEnded says that the subscription is held as ended: a person must decide.
var ErrEnded = errors.New("the subscription is held as ended")

// ActivateSubscription marks the invoice as paid, the subscription as active, the plan's features as
// enabled and those that only its former plan gave as not, and announces invoice.paid in the outbox; all in tx. It returns ErrEnded, with nothing
// to keep in tx, when the subscription is held as ended, unless a person has said to reopen it.
//
// Locks, in this order: the account's row (which also makes the outbox order of an account its
// commit order), the subscription's, the invoice's, the features' in name order.
func ActivateSubscription(ctx context.Context, tx ledger.Tx, f InvoicePaid, features []string, reopen bool, effectKey string, announcement json.RawMessage) (Activation, error) {
	var done Activation
	held, err := lockForActivation(ctx, tx, f)
	if err != nil {
		return done, err
	}
	batch := &pgx.Batch{}
	if f.Subscription != "" {
		if held != nil && held.Terminal() && !reopen {
			return done, ErrEnded
		}
		done.Before = held
		done.Superseded = held != nil && !held.Terminal() && held.FenceAt.After(f.OccurredAt)
		if !done.Superseded {
			batch.Queue(activateSQL, f.Mode, f.Subscription, f.Account, f.Plan, nullTime(f.PeriodEnd), f.OccurredAt, f.EventID, reopen)
		}
	}
	batch.Queue(payInvoiceSQL, f.Mode, f.Invoice, f.Account, f.Subscription, f.Plan, f.Amount, f.Currency,
		nullTime(f.PeriodStart), nullTime(f.PeriodEnd), f.OccurredAt, f.EventID)
	if !done.Superseded {
		if f.Subscription != "" {
			batch.Queue(withdrawOthersSQL, f.Mode, f.Account, append([]string{}, features...), f.Subscription).Query(names(&done.Withdrawn))
		}
		if len(features) > 0 {
			batch.Queue(enableFeaturesSQL, f.Mode, f.Account, features, f.Invoice).Query(names(&done.Features))
		}
	}
	batch.Queue(announceSQL, f.Mode, f.Account, "invoice.paid", f.ReceiptID, effectKey, announcement)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return done, fmt.Errorf("activate for invoice %s: %w", f.Invoice, err)
	}
	return done, nil
}

// names collects one column of text.
func names(into *[]string) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}
}

// lockForActivation locks the account's row, making it where it is not there, and the subscription's, in
// one round trip. It returns the subscription, nil when it is not there.
func lockForActivation(ctx context.Context, tx ledger.Tx, f InvoicePaid) (held *Subscription, err error) {
	batch := &pgx.Batch{}
	batch.Queue(touchAccountSQL, f.Mode, f.Account, f.Provider, f.Customer)
	if f.Subscription != "" {
		batch.Queue(lockSubscriptionSQL, f.Mode, f.Subscription).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Subscription])
			if len(found) > 0 {
				held = found[0]
			}
			return err
		})
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("lock account %s and its subscription %s: %w", f.Account, f.Subscription, err)
	}
	return held, nil
}

// RestoreSubscription undoes an activation: the invoice stays paid (it is), the subscription goes
// back to what it was and the features that were switched on are withdrawn. What a newer event has
// written since is left alone.
func RestoreSubscription(ctx context.Context, tx ledger.Tx, f InvoicePaid, done Activation, effectKey string, announcement json.RawMessage) error {
	batch := &pgx.Batch{}
	batch.Queue(touchAccountSQL, f.Mode, f.Account, f.Provider, f.Customer)
	switch {
	case f.Subscription == "" || done.Superseded:
	case done.Before == nil:
		// It was not there. It stays as a row, because the fence must stay.
		batch.Queue(restoreSQL, f.Mode, f.Subscription, "incomplete", "", nil, f.EventID)
	default:
		batch.Queue(restoreSQL, f.Mode, f.Subscription, done.Before.Status, done.Before.Plan, done.Before.PeriodEnd, f.EventID)
	}
	if len(done.Features) > 0 {
		batch.Queue(withdrawFeaturesSQL, f.Mode, f.Account, done.Features, f.Invoice)
	}
	if len(done.Withdrawn) > 0 {
		batch.Queue(returnFeaturesSQL, f.Mode, f.Account, done.Withdrawn, f.Subscription, f.EventID)
	}
	batch.Queue(announceSQL, f.Mode, f.Account, "invoice.paid.compensated", f.ReceiptID, effectKey, announcement)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("restore subscription %s: %w", f.Subscription, err)
	}
	return nil
}

// OpenOnboardingTask is the statement that opens the task of an account and period; one that is there
// stays as it is. It runs in the commit that records the effect as done, after the record, and does
// nothing where the effect is not done.
func OpenOnboardingTask(f InvoicePaid, title, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, title, effectKey}}
}

// CancelOnboardingTask is the statement that cancels the task if it is still open: what a person has
// done stays done. It runs like that of [OpenOnboardingTask].
func CancelOnboardingTask(f InvoicePaid, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: cancelTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, effectKey}}
}

// RecordWorkspace is the statement that records the state which a workspace was brought to; it runs
// in the commit that ends the effect.
func RecordWorkspace(f InvoicePaid, state, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: workspaceSQL, Args: []any{f.Mode, f.Account, f.Plan, state, effectKey}}
}

// RecordFinanceEntry is the statement that records an entry which finance has taken; it runs in the
// commit that ends the effect.
func RecordFinanceEntry(f InvoicePaid, kind, reference, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: financeEntrySQL, Args: []any{effectKey, f.Mode, f.Account, f.Invoice, kind, f.Amount, f.Currency, reference}}
}

// nullTime turns the zero time into NULL: "not told" must not become the year 1.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
