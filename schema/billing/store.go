package billing

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Store reads facts and what they fold to. [Apply] writes them, in one transaction with the ledger's row.
type Store struct{ db schema.Querier }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return Reading(pool) }

// Reading returns the store of a migrated database as db sees it, a transaction for one.
func Reading(db schema.Querier) *Store { return &Store{db: db} }

// Target returns what the workspace of an account shall be now; the zero target for an account that is not known.
func (s *Store) Target(ctx context.Context, mode, account string) (Target, error) {
	row, err := one(ctx, s.db, "the target of account "+account, pgx.RowToStructByName[accountRow], accountSQL, mode,
		account)
	return row.target(), err
}

// Invoice returns an invoice, or the zero invoice if it is not known.
func (s *Store) Invoice(ctx context.Context, mode, id string) (Invoice, error) {
	return known[Invoice](ctx, s.db, invoiceSQL, mode, id)
}

// AccessEnds returns when the clock ends the last grant of a plan to an account, zero where one lasts or
// no grant exists.
func (s *Store) AccessEnds(ctx context.Context, mode, account string) (time.Time, error) {
	grants, err := schema.Rows(ctx, s.db, "read the grants of account "+account, scanGrant, grantsSQL, mode, account)
	return Access{Grants: grants}.EndsAt(), err
}

// NotOurs counts the subscriptions that are not ours, by mode.
func (s *Store) NotOurs(ctx context.Context) (map[string]int, error) {
	return one(ctx, s.db, "how many subscriptions are not ours", pgx.RowTo[map[string]int], notOursSQL)
}

const notOursSQL = `
select jsonb_object_agg(mode, count) from (
    select mode, count(*) from subscriptions where state ? 'NotOurs' group by mode) as counts`

// ToldSince reports whether an effect was done after a time, or may have been, whose key is one of keys and a number.
func (s *Store) ToldSince(ctx context.Context, keys []string, at time.Time) (bool, error) {
	return ledger.DoneSince(ctx, s.db, keys, at)
}

// Subscription returns a subscription, or the zero subscription if it is not known.
func (s *Store) Subscription(ctx context.Context, mode, id string) (Subscription, error) {
	return known[Subscription](ctx, s.db, subscriptionSQL, mode, id)
}

// known reads the state of an object, or the zero state if it is not known.
func known[S any](ctx context.Context, db schema.Querier, sql, mode, id string) (S, error) {
	return one(ctx, db, id, pgx.RowTo[S], sql, mode, id)
}

// OfReceipt returns the facts that the event of a receipt left, none where it left none.
func (s *Store) OfReceipt(ctx context.Context, receiptID string) ([]Fact, error) {
	return schema.Rows(ctx, s.db, "read the facts of receipt "+receiptID, scanFact, factsOfReceiptSQL, receiptID)
}

// About returns the facts about an object of the subject's scope.
func (s *Store) About(ctx context.Context, of Subject, object string) ([]Fact, error) {
	return schema.Rows(ctx, s.db, "read the facts about "+object, scanFact, factsSQL, []string{object}, of.Mode,
		of.Provider,
		of.ProviderAccount)
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
	err := row.Scan(&f.Provider, &f.ProviderAccount, &f.Mode, &f.Kind, &f.Object, &f.Customer,
		&f.EventID, &f.EventType, &f.ReceiptID, &f.OccurredAt, &f.Rank, &f.Origin,
		&f.Reader, &f.Reading, &f.Data)
	f.OccurredAt = f.OccurredAt.UTC()
	return f, err
}

// one returns the row of a statement that finds one at most, as to reads it, and the zero value for none. The error
// says what could not be read.
func one[R any](ctx context.Context, db schema.Querier, what string, to pgx.RowToFunc[R], sql string,
	args ...any) (found R, err error) {
	list, err := schema.Rows(ctx, db, "read "+what, to, sql, args...)
	if len(list) > 0 {
		found = list[0]
	}
	return found, err
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
