package billingtest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// Deliver applies each of the facts with [Policy], in a transaction of its own.
func Deliver(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact, now time.Time) {
	t.Helper()
	DeliverWith(t, pool, Policy, now, facts...)
}

// DeliverWith is like [Deliver], but with other billing rules.
func DeliverWith(t *testing.T, pool *pgxpool.Pool, rules fact.Policy, now time.Time, facts ...fact.Fact) {
	t.Helper()
	for _, f := range facts {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := billing.Apply(t.Context(), tx, append(fact.LinksOf(f), f), rules, "apply", now)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Receipts inserts the receipts of facts, as the ingress does before the facts are applied.
func Receipts(t *testing.T, db schema.Execer, facts ...fact.Fact) {
	t.Helper()
	for _, f := range facts {
		if err := schema.Exec(t.Context(), db, "insert a receipt", insertReceiptSQL, f.ReceiptID, f.Provider,
			f.ProviderAccount, f.Mode, f.EventID, f.EventType, f.Object); err != nil {
			t.Fatal(err)
		}
	}
}

const insertReceiptSQL = `
insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status)
values ($1, 'stripe', $2, $3, $4, $5, 'id', $6, $7, now(), '', 'processed') on conflict do nothing`

// Subjects returns the rows of event_subjects in text form.
func Subjects(t *testing.T, db schema.Querier) []string {
	t.Helper()
	return Texts(t, db, `
select receipt_id || ' ' || object || ' main=' || main || ' ' || account || ' ' || customer || ' ' || coalesce(amount || ' ' || currency, '-') || number
  from event_subjects order by receipt_id, object`)
}

// ApplyPatiently applies a fact in a transaction of its own. It retries after a lock timeout.
func ApplyPatiently(ctx context.Context, pool *pgxpool.Pool, f fact.Fact) error {
	for {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := billing.Apply(ctx, tx, []fact.Fact{f}, Policy, "apply:"+f.EventID, At(1000))
			return err
		})
		if busy := (&pgconn.PgError{}); !errors.As(err, &busy) || busy.Code != "55P03" {
			return err
		}
	}
}

// Propose proposes billing rules, as every pawl process does at its start. It returns the hash of the rules that are
// active then.
func Propose(t *testing.T, pool *pgxpool.Pool, rules fact.Policy) string {
	t.Helper()
	_, active, err := billing.Propose(t.Context(), pool, rules, "a worker")
	if err != nil {
		t.Fatal(err)
	}
	return active
}

// Switch activates billing rules.
func Switch(t *testing.T, pool *pgxpool.Pool, rules fact.Policy) {
	t.Helper()
	from, err := billing.ActiveRulesHash(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return billing.ActivateRules(t.Context(), tx, from, rules, "ada", "a test")
	}); err != nil {
		t.Fatal(err)
	}
}

// Forecast previews a change of the billing rules. It also previews a check of all accounts, and fails the test if the
// two differ.
func Forecast(t *testing.T, pool *pgxpool.Pool, from, to fact.Policy, now time.Time) rebuild.Forecast {
	t.Helper()
	all := forecast(t, pool, rebuild.Request{Rules: to, At: now})
	changed := forecast(t, pool, rebuild.Request{Rules: to, From: &from, At: now})
	if !reflect.DeepEqual(all.Rows, changed.Rows) {
		t.Errorf("a check of all accounts finds %+v\na check of the change finds %+v", all.Rows, changed.Rows)
	}
	return changed
}

func forecast(t *testing.T, pool *pgxpool.Pool, r rebuild.Request) rebuild.Forecast {
	t.Helper()
	is, err := rebuild.Check(t.Context(), Connect(t, pool), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// Connect opens a connection that can be used for one check. The connection is closed at the end of the test.
func Connect(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Check returns the rows that differ from their facts under [Policy], as text.
func Check(t *testing.T, pool *pgxpool.Pool, of billing.Scope, now time.Time) []string {
	t.Helper()
	return CheckWith(t, pool, of, Policy, now)
}

// CheckWith is like [Check], but with other billing rules.
func CheckWith(t *testing.T, pool *pgxpool.Pool, of billing.Scope, rules fact.Policy, now time.Time) []string {
	t.Helper()
	lines := []string{}
	for _, d := range forecast(t, pool, rebuild.Request{Scope: of, Rules: rules, At: now}).Rows {
		lines = append(lines, d.String())
	}
	return lines
}

// Job returns the recomputation that a job does.
func Job(cause billing.Cause, id string, rules fact.Policy, now time.Time) billing.Recompute {
	return billing.Recompute{Cause: cause, Policy: rules, At: now, Job: id}
}

// Count executes a statement that returns one number.
func Count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Texts executes a statement that returns one column of text.
func Texts(t *testing.T, db schema.Querier, sql string) []string {
	t.Helper()
	list, err := schema.List[string](t.Context(), db, "read texts", sql)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
