package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/schema/ledger"
)

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
			start, end := nullTime(f.PeriodStart), nullTime(f.PeriodEnd)
			if f.instant() {
				start, end = nil, nil
			}
			batch.Queue(activateSQL, f.Mode, f.Subscription, f.Account, f.Plan, start, end,
				f.OccurredAt, f.EventID, f.Invoice, heldBy(held)).Exec(wasWritten(f.Subscription))
		}
	}
	batch.Queue(payInvoiceSQL, f.Mode, f.Invoice, f.Account, f.Subscription, f.Plan, f.Amount, f.Currency,
		nullTime(f.PeriodStart), nullTime(f.PeriodEnd), f.OccurredAt, f.EventID)
	if !done.Superseded {
		if f.Subscription != "" {
			batch.Queue(withdrawOthersSQL, f.Mode, f.Account, append([]string{}, features...), f.Subscription).Query(collectTexts(&done.Withdrawn))
		}
		if len(features) > 0 {
			batch.Queue(enableFeaturesSQL, f.Mode, f.Account, features, f.Invoice).Query(collectTexts(&done.Features))
		}
	}
	batch.Queue(announceSQL, f.Mode, f.Account, "invoice.paid", f.ReceiptID, effectKey, announcement)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return done, fmt.Errorf("activate for invoice %s: %w", f.Invoice, err)
	}
	return done, nil
}

// collectTexts reads one column of text.
func collectTexts(into *[]string) func(pgx.Rows) error {
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

// wasWritten returns a check that the subscription's row was written: it is not where another transaction has made the
// row since it was looked for.
func wasWritten(subscription string) func(pgconn.CommandTag) error {
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

// Restoration is what RestoreSubscription came to, kept in the ledger.
type Restoration struct {
	// WorkspaceDiffers says that the account's workspace is not known to have a plan that the standing
	// invoices give, or to be released where none stands.
	WorkspaceDiffers bool `json:",omitempty"`
}

// RestoreSubscription undoes an activation: the invoice stays paid (it is) but stands no longer. Where it was
// the one that decided, the subscription goes back to what it was, or to what the newest invoice that
// stands makes of it; its features go where no other standing invoice gives them. What a newer invoice has
// written since is left alone. features returns those of a plan.
func RestoreSubscription(ctx context.Context, tx ledger.Tx, f InvoicePaid, done Activation, features func(plan string) []string, effectKey string, announcement json.RawMessage) (Restoration, error) {
	var standing []invoice
	var restored Restoration
	held, err := lock(ctx, tx, f, func(batch *pgx.Batch) {
		batch.Queue(standingInvoicesSQL, f.Mode, f.Account, f.Invoice).Query(func(rows pgx.Rows) (err error) {
			standing, err = pgx.CollectRows(rows, pgx.RowToStructByName[invoice])
			return err
		})
	})
	if err != nil {
		return restored, err
	}
	batch := &pgx.Batch{}
	batch.Queue(takeBackInvoiceSQL, f.Mode, f.Invoice)
	plans := []string{}
	for _, other := range standing {
		plans = append(plans, other.Plan)
		if given := features(other.Plan); len(given) > 0 {
			batch.Queue(handOverFeaturesSQL, f.Mode, f.Account, f.Invoice, other.ID, given)
		}
	}
	batch.Queue(withdrawFeaturesSQL, f.Mode, f.Account, f.Invoice)
	if held != nil && held.FenceInvoice == f.Invoice {
		own := newestOf(standing, f.Subscription)
		s := done.restored(f, own)
		batch.Queue(restoreSQL, f.Mode, f.Subscription, s.Status, s.Plan, s.PeriodStart, s.PeriodEnd, s.FenceEvent, s.FenceInvoice)
		if own != nil && !s.Terminal() && len(features(own.Plan)) > 0 {
			batch.Queue(enableFeaturesSQL, f.Mode, f.Account, features(own.Plan), own.ID)
		}
	}
	batch.Queue(announceSQL, f.Mode, f.Account, "invoice.paid.compensated", f.ReceiptID, effectKey, announcement)
	batch.Queue(workspaceDiffersSQL, f.Mode, f.Account, plans, WorkspaceOf(f)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&restored.WorkspaceDiffers)
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return restored, fmt.Errorf("restore subscription %s: %w", f.Subscription, err)
	}
	return restored, nil
}

// restored is what the subscription becomes when f is taken back. own is the newest of its invoices that stand, nil for
// none. What the subscription was before the activation counts where it had ended, or where own had made it so; else
// own alone decides.
func (a Activation) restored(f InvoicePaid, own *invoice) Subscription {
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
	// It was not there before. The row stays all the same: whoever writes next compares with who wrote last.
	return Subscription{Status: nothingStands, FenceEvent: f.EventID}
}

// nullTime turns the zero time into NULL: "not told" must not become the year 1.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
