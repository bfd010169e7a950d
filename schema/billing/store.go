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

// Store reads facts and what they fold to. [Apply] writes them, in one transaction with the ledger's row.
type Store struct{ db rowQuerier }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return Reading(pool) }

// Reading returns the store of a migrated database as db sees it, a transaction for one.
func Reading(db rowQuerier) *Store { return &Store{db: db} }

// Target returns what the workspace of an account shall be now; the zero target for an account that is not known.
func (s *Store) Target(ctx context.Context, mode, account string) (Target, error) {
	row, err := one[accountRow](ctx, s.db, accountSQL, mode, account)
	if errors.Is(err, pgx.ErrNoRows) {
		return Target{}, nil
	}
	if err != nil {
		return Target{}, fmt.Errorf("read target of account %s: %w", account, err)
	}
	return row.target(), nil
}

// Invoice returns an invoice, or the zero invoice if it is not known.
func (s *Store) Invoice(ctx context.Context, mode, id string) (Invoice, error) {
	return known[Invoice](ctx, s.db, invoiceSQL, mode, id)
}

// AccessEnds returns when the clock ends the last grant of a plan to an account, zero where one lasts or
// no grant exists.
func (s *Store) AccessEnds(ctx context.Context, mode, account string) (time.Time, error) {
	rows, _ := s.db.Query(ctx, grantsSQL, mode, account) // CollectRows returns its error
	grants, err := pgx.CollectRows(rows, scanGrant)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when the access of account %s ends: %w", account, err)
	}
	return Access{Grants: grants}.EndsAt(), nil
}

// NotOurs counts the subscriptions that are not ours, by mode.
func (s *Store) NotOurs(ctx context.Context) (map[string]int, error) {
	counts, mode, count := map[string]int{}, "", 0
	rows, _ := s.db.Query(ctx, notOursSQL) // ForEachRow returns its error
	if _, err := pgx.ForEachRow(rows, []any{&mode, &count}, func() error {
		counts[mode] = count
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count subscriptions that are not ours: %w", err)
	}
	return counts, nil
}

const notOursSQL = `select mode, count(*) from subscriptions where state ? 'NotOurs' group by mode`

// ToldSince reports whether an effect was done after a time, or may have been, whose key is one of keys and a number.
func (s *Store) ToldSince(ctx context.Context, keys []string, at time.Time) (bool, error) {
	return ledger.DoneSince(ctx, s.db, keys, at)
}

// Subscription returns a subscription, or the zero subscription if it is not known.
func (s *Store) Subscription(ctx context.Context, mode, id string) (Subscription, error) {
	return known[Subscription](ctx, s.db, subscriptionSQL, mode, id)
}

// known reads the state of an object, or the zero state if it is not known.
func known[S any](ctx context.Context, db querier, sql, mode, id string) (state S, err error) {
	rows, err := db.Query(ctx, sql, mode, id)
	if err == nil {
		state, err = pgx.CollectExactlyOneRow(rows, scanState[S])
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("read %s: %w", id, err)
	}
	return state, nil
}

// OfReceipt returns the facts that the event of a receipt left, none where it left none.
func (s *Store) OfReceipt(ctx context.Context, receiptID string) ([]Fact, error) {
	rows, err := s.db.Query(ctx, factsOfReceiptSQL, receiptID)
	if err != nil {
		return nil, fmt.Errorf("read facts of receipt %s: %w", receiptID, err)
	}
	facts, err := pgx.CollectRows(rows, scanFact)
	if err != nil {
		return nil, fmt.Errorf("read facts of receipt %s: %w", receiptID, err)
	}
	return facts, nil
}

// About returns the facts about an object of the subject's scope.
func (s *Store) About(ctx context.Context, of Subject, object string) ([]Fact, error) {
	rows, err := s.db.Query(ctx, factsSQL, []string{object}, of.Mode, of.Provider, of.ProviderAccount)
	if err != nil {
		return nil, fmt.Errorf("read facts about %s: %w", object, err)
	}
	facts, err := pgx.CollectRows(rows, scanFact)
	if err != nil {
		return nil, fmt.Errorf("read facts about %s: %w", object, err)
	}
	return facts, nil
}

// accountRow is a row of accounts.
type accountRow struct {
	ID       string   `db:"id"`
	Version  int64    `db:"target_version"`
	State    string   `db:"target_state"`
	Plan     string   `db:"target_plan"`
	Quantity int64    `db:"target_quantity"`
	Features []string `db:"target_features"`
	Held     bool     `db:"held"`
	// OverAt is when what granted access last was over, null while nothing was. Now is the database's time.
	OverAt *time.Time `db:"over_at"`
	Now    time.Time  `db:"now"`
	// Made is set where the row was just made.
	Made bool `db:"made"`
}

func (r accountRow) target() Target {
	return Target{Version: r.Version, State: r.State, Plan: r.Plan, Quantity: r.Quantity, Features: set(r.Features)}
}

func scanFact(row pgx.CollectableRow) (Fact, error) {
	var f Fact
	var data []byte
	err := row.Scan(&f.Provider, &f.ProviderAccount, &f.Mode, &f.Kind, &f.Object, &f.Customer,
		&f.EventID, &f.EventType, &f.ReceiptID, &f.OccurredAt, &f.Rank, &f.Origin,
		&f.Reader, &f.Reading, &data)
	if err == nil {
		err = json.Unmarshal(data, &f.Data)
	}
	f.OccurredAt = f.OccurredAt.UTC()
	return f, err
}

// scanState reads one column that holds a folded state as JSON.
func scanState[S any](row pgx.CollectableRow) (S, error) {
	var state S
	var data []byte
	err := row.Scan(&data)
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	return state, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func one[R any](ctx context.Context, db querier, sql string, args ...any) (R, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none R
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[R])
}

func scanGrant(row pgx.CollectableRow) (Grant, error) {
	var g Grant
	var until, ends *time.Time
	err := row.Scan(&g.Object, &g.Plan, &g.Quantity, &g.AddOns, &until, &ends, &g.Because)
	g.Until, g.Ends, g.AddOns = orZero(until), orZero(ends), set(g.AddOns)
	return g, err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
