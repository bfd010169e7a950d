package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/ledger"
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

// supersedes reports whether what is held is newer than f: paid for a later period or, where that does not
// tell, written by a later event. An invoice never supersedes itself, whichever of its events wrote it; and
// one that is paid late is older than its event.
func (s Subscription) supersedes(f InvoicePaid) bool {
	switch {
	case s.FenceInvoice == f.Invoice:
		return false
	case s.PeriodStart != nil && !f.PeriodStart.IsZero() && !s.PeriodStart.Equal(f.PeriodStart):
		return s.PeriodStart.After(f.PeriodStart)
	}
	return s.FenceAt.After(f.OccurredAt)
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

// Activation is what ActivateSubscription changed, kept in the ledger: as evidence, and for what cannot be
// told from the invoices when it is undone.
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
// enabled and those that only its former plan gave as not, and announces invoice.paid in the outbox; all in
// tx. It returns ErrEnded, with nothing to keep in tx, when the subscription is held as ended, unless a
// person has said to reopen it.
//
// Locks, in this order: the account's row (which also makes the outbox order of an account its
// commit order), the subscription's, the invoice's, the features' in name order.
func ActivateSubscription(ctx context.Context, tx ledger.Tx, f InvoicePaid, features []string, reopen bool, effectKey string, announcement json.RawMessage) (Activation, error) {
	var done Activation
	held, err := lock(ctx, tx, f)
	if err != nil {
		return done, err
	}
	batch := &pgx.Batch{}
	if f.Subscription != "" {
		if held != nil && held.Terminal() && !reopen {
			return done, ErrEnded
		}
		done.Before = held
		done.Superseded = held != nil && !held.Terminal() && held.supersedes(f)
		if !done.Superseded {
			batch.Queue(activateSQL, f.Mode, f.Subscription, f.Account, f.Plan, nullTime(f.PeriodStart), nullTime(f.PeriodEnd),
				f.OccurredAt, f.EventID, f.Invoice, heldBy(held)).Exec(one(f.Subscription))
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

// heldBy is the event that wrote a subscription last, nil where there is none.
func heldBy(held *Subscription) *string {
	if held == nil {
		return nil
	}
	return &held.FenceEvent
}

// one reports a subscription that was not written: another transaction has made it since it was looked for.
func one(subscription string) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("subscription %s was written at the same moment: try again", subscription)
		}
		return nil
	}
}

// lock locks the account's row, making it where it is not there, and the subscription's, and runs what else is
// queued, in one round trip. It returns the subscription, nil when it is not there.
func lock(ctx context.Context, tx ledger.Tx, f InvoicePaid, queue ...func(*pgx.Batch)) (held *Subscription, err error) {
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
	for _, more := range queue {
		more(batch)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("lock account %s and its subscription %s: %w", f.Account, f.Subscription, err)
	}
	return held, nil
}

// RestoreSubscription undoes an activation: the invoice stays paid (it is) but stands no longer. Where it was
// the one that decided, the subscription goes back to what it was, or to what the newest invoice that
// stands makes of it; its features go where no other standing invoice gives them. What a newer invoice has
// written since is left alone. features returns those of a plan.
func RestoreSubscription(ctx context.Context, tx ledger.Tx, f InvoicePaid, done Activation, features func(plan string) []string, effectKey string, announcement json.RawMessage) error {
	var standing []invoice
	held, err := lock(ctx, tx, f, func(batch *pgx.Batch) {
		batch.Queue(standingInvoicesSQL, f.Mode, f.Account, f.Invoice).Query(func(rows pgx.Rows) (err error) {
			standing, err = pgx.CollectRows(rows, pgx.RowToStructByName[invoice])
			return err
		})
	})
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(takeBackInvoiceSQL, f.Mode, f.Invoice)
	for _, other := range standing {
		if given := features(other.Plan); len(given) > 0 {
			batch.Queue(handOverFeaturesSQL, f.Mode, f.Account, f.Invoice, other.ID, given)
		}
	}
	batch.Queue(withdrawFeaturesSQL, f.Mode, f.Account, f.Invoice)
	if held != nil && held.FenceInvoice == f.Invoice {
		own := newestOf(standing, f.Subscription)
		was := done.before(f, own)
		batch.Queue(restoreSQL, f.Mode, f.Subscription, was.Status, was.Plan, was.PeriodStart, was.PeriodEnd, was.FenceEvent, was.FenceInvoice)
		if own != nil && !was.Terminal() && len(features(own.Plan)) > 0 {
			batch.Queue(enableFeaturesSQL, f.Mode, f.Account, features(own.Plan), own.ID)
		}
	}
	batch.Queue(announceSQL, f.Mode, f.Account, "invoice.paid.compensated", f.ReceiptID, effectKey, announcement)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("restore subscription %s: %w", f.Subscription, err)
	}
	return nil
}

// before is what the subscription becomes without f, own being the newest of its invoices that stand. The
// snapshot counts only while what wrote it stands, too.
func (a Activation) before(f InvoicePaid, own *invoice) Subscription {
	var standing string
	if own != nil {
		standing = own.ID
	}
	switch {
	case a.Before != nil && (a.Before.Terminal() || a.Before.FenceInvoice == standing):
		return *a.Before
	case own != nil:
		return Subscription{
			Status: "active", Plan: own.Plan, PeriodStart: own.PeriodStart, PeriodEnd: own.PeriodEnd,
			FenceEvent: own.FenceEvent, FenceInvoice: own.ID,
		}
	}
	// It was not there. It stays as a row, because the fence must stay.
	return Subscription{Status: "incomplete", FenceEvent: f.EventID}
}

// OpenOnboardingTask is the statement that opens the task of an account and period; one that is open or
// done stays as it is. It runs in the commit that records the effect as done, after the record, and does
// nothing where the effect is not done.
func OpenOnboardingTask(f InvoicePaid, title, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, title, effectKey}}
}

// CancelOnboardingTask is the statement that cancels the task that the effect opened, if it is still open: what
// a person has done stays done, and so does what another invoice's effect opened. It runs like that of
// [OpenOnboardingTask].
func CancelOnboardingTask(f InvoicePaid, opened, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: cancelTaskSQL, Args: []any{f.Mode, f.Account, f.PeriodStart, opened, effectKey}}
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
