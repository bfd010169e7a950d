package billing

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Store reads facts and the state that was computed from them. [Apply] writes both in one transaction with the ledger
// row.
type Store struct{ db schema.Querier }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return Reading(pool) }

// Reading returns the store that reads through db, for example a transaction.
func Reading(db schema.Querier) *Store { return &Store{db: db} }

// Target returns the target of the workspace of an account. It returns the zero target for an unknown account.
func (s *Store) Target(ctx context.Context, mode, account string) (fold.Target, error) {
	row, err := one(ctx, s.db, "the target of account "+account, pgx.RowToStructByName[accountRow], accountSQL, mode,
		account)
	return row.target(), err
}

// Invoice returns an invoice, or the zero invoice if it is unknown.
func (s *Store) Invoice(ctx context.Context, mode, id string) (fold.Invoice, error) {
	return known[fold.Invoice](ctx, s.db, invoiceSQL, mode, id)
}

// AccessEnds returns when access ends, that is, when a scheduled action ends the last grant of a plan. It returns the
// zero time if a grant has no end, or if there is no grant.
func (s *Store) AccessEnds(ctx context.Context, mode, account string) (time.Time, error) {
	grants, err := schema.Rows(ctx, s.db, "read the grants of account "+account, scanGrant, grantsSQL, mode, account)
	return fold.Access{Grants: grants}.EndsAt(), err
}

// NotOurs returns, by mode, the number of subscriptions that belong to other products.
func (s *Store) NotOurs(ctx context.Context) (map[string]int, error) {
	return one(ctx, s.db, "count the subscriptions of other products", pgx.RowTo[map[string]int], notOursSQL)
}

const notOursSQL = `
select jsonb_object_agg(mode, count) from (
    select mode, count(*) from subscriptions where state ? 'NotOurs' group by mode) as counts`

// ToldSince reports whether the effect of one of the keys has been done, or is uncertain, since a time. A key also
// matches keys that continue with a number.
func (s *Store) ToldSince(ctx context.Context, keys []string, at time.Time) (bool, error) {
	return ledger.DoneSince(ctx, s.db, keys, at)
}

// Subscription returns a subscription, or the zero subscription if it is unknown.
func (s *Store) Subscription(ctx context.Context, mode, id string) (fold.Subscription, error) {
	return known[fold.Subscription](ctx, s.db, subscriptionSQL, mode, id)
}

func known[S any](ctx context.Context, db schema.Querier, sql, mode, id string) (S, error) {
	return one(ctx, db, id, pgx.RowTo[S], sql, mode, id)
}

// OfReceipt returns the facts of the event that a receipt contains.
func (s *Store) OfReceipt(ctx context.Context, receiptID string) ([]fact.Fact, error) {
	return schema.Rows(ctx, s.db, "read the facts of receipt "+receiptID, ScanFact, factsOfReceiptSQL, receiptID)
}

// About returns the facts about an object, within the provider, mode and connected account of the subject.
func (s *Store) About(ctx context.Context, of fact.Subject, object string) ([]fact.Fact, error) {
	return schema.Rows(ctx, s.db, "read the facts about "+object, ScanFact, factsSQL, []string{object}, of.Mode,
		of.Provider,
		of.ProviderAccount)
}

type accountRow struct {
	ID       string   `db:"id"`
	Version  int64    `db:"target_version"`
	Least    int64    `db:"least_version"`
	State    string   `db:"target_state"`
	Plan     string   `db:"target_plan"`
	Quantity int64    `db:"target_quantity"`
	Features []string `db:"target_features"`
	Held     bool     `db:"held"`
	// OverAt is when the last grant ended. It is null if the account has never lost a grant. Now is the time of the
	// database.
	OverAt *time.Time `db:"over_at"`
	Now    time.Time  `db:"now"`
	// Made is set if the row was inserted by this statement.
	Made bool `db:"made"`
}

func (r accountRow) target() fold.Target {
	return fold.Target{Version: r.Version, Least: r.Least, State: r.State, Plan: r.Plan, Quantity: r.Quantity,
		Features: fact.Unique(r.Features)}
}

// ScanFact reads a row with the columns [FactColumns].
func ScanFact(row pgx.CollectableRow) (fact.Fact, error) {
	var f fact.Fact
	err := row.Scan(&f.Provider, &f.ProviderAccount, &f.Mode, &f.Kind, &f.Object, &f.Customer,
		&f.EventID, &f.EventType, &f.ReceiptID, &f.OccurredAt, &f.Rank, &f.Origin,
		&f.Reader, &f.Reading, &f.Data)
	f.OccurredAt = f.OccurredAt.UTC()
	return f, err
}

// one returns the only row of a statement, or the zero value if it returns no row. The error contains what, which
// describes the row.
func one[R any](ctx context.Context, db schema.Querier, what string, to pgx.RowToFunc[R], sql string,
	args ...any) (found R, err error) {
	list, err := schema.Rows(ctx, db, "read "+what, to, sql, args...)
	if len(list) > 0 {
		found = list[0]
	}
	return found, err
}

func scanGrant(row pgx.CollectableRow) (fold.Grant, error) {
	var g fold.Grant
	var until, ends *time.Time
	err := row.Scan(&g.Object, &g.Plan, &g.Quantity, &g.AddOns, &until, &ends, &g.Event, &g.Ended)
	g.Until, g.Ends, g.AddOns = orZero(until), orZero(ends), fact.Unique(g.AddOns)
	return g, err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// FactColumns are the columns of the table facts and of the view current_facts that [ScanFact] reads. The view contains
// only the newest facts of each event.
const FactColumns = `provider, provider_account, mode, kind, object, customer, event_id, event_type, receipt_id::text, occurred_at, rank, origin, reader, reading, data`

const appendFactSQL = `
insert into facts (provider, provider_account, mode, kind, object, customer, event_id, event_type, receipt_id, occurred_at, rank, origin, reader, reading, data)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::uuid, $10, $11, $12, $13, $14, $15)
    on conflict (object, event_id, kind, mode, provider, provider_account, reading) do nothing`

const factsSQL = `
select ` + FactColumns + ` from current_facts
 where object = any($1) and mode = $2 and provider = $3 and provider_account = $4`

const factsOfReceiptSQL = `select ` + FactColumns + ` from current_facts where receipt_id = $1::uuid and origin in ('event', 'reread') and kind <> 'withheld' order by id`

const accountColumns = `id, target_version, coalesce((select max(least_version) from recoveries), 0) as least_version, target_state, target_plan, target_quantity, target_features, held, over_at, clock_timestamp() as now, (xmax = 0) as made`

const accountSQL = `select ` + accountColumns + ` from accounts where mode = $1 and id = $2`

const lockedAccountSQL = accountSQL + ` for no key update`

// lockAccountSQL inserts the row of the account, or locks it. The events in the outbox of an account therefore have the
// order in which their changes were committed.
const lockAccountSQL = `
insert into accounts (mode, id, provider, customer) values ($1, $2, $3, $4)
    on conflict (mode, id) do update set provider = excluded.provider, folded_at = now()
returning ` + accountColumns

const grantsSQL = `select object, plan, quantity, add_ons, until, ends, because, ended from grants where mode = $1 and account = $2`

const giveSQL = `
insert into grants (mode, object, account, plan, quantity, add_ons, until, ends, because, ended) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    on conflict (mode, object) do update set account = excluded.account, plan = excluded.plan, quantity = excluded.quantity,
       add_ons = excluded.add_ons, until = excluded.until, ends = excluded.ends, because = excluded.because, ended = excluded.ended`

const takeSQL = `delete from grants where mode = $1 and object = $2`

const writeTargetSQL = `
update accounts set target_version = $3, target_state = $4, target_plan = $5, target_quantity = $6, target_features = $7,
       known_features = array(select unnest(known_features) union select unnest($7::text[]) order by 1), updated_at = now()
 where mode = $1 and id = $2`

const lapsedSQL = `update accounts set over_at = $3 where mode = $1 and id = $2`

// holdsSQL reads the facts that hold or release a whole account.
const holdsSQL = `
select ` + FactColumns + ` from current_facts
 where object = $2 and mode = $1 and kind in ('held', 'released') and data->'Decision'->>'Account' = object`

const holdSQL = `update accounts set held = $3, updated_at = now() where mode = $1 and id = $2 and held <> $3`

const subscriptionSQL = `select state from subscriptions where mode = $1 and id = $2`

const invoiceSQL = `select state from invoices where mode = $1 and id = $2`

// readObjects returns the objects that a statement selects. The statement returns kind and state.
func readObjects(ctx context.Context, db schema.Querier, sql string, args ...any) (fold.Objects, error) {
	found := fold.Objects{}
	_, err := schema.Rows(ctx, db, "read objects", func(row pgx.CollectableRow) (none struct{}, err error) {
		var of fold.Kind
		var state []byte
		if err = row.Scan(&of, &state); err == nil {
			err = found.Add(of, state)
		}
		return none, err
	}, sql, args...)
	return found, err
}
