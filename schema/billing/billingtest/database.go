package billingtest

import (
	"context"
	"errors"
	"fmt"
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

// Deliver applies facts with [Policy], each in a transaction of its own.
func Deliver(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact, now time.Time) {
	t.Helper()
	DeliverWith(t, pool, Policy, now, facts...)
}

// DeliverWith is [Deliver] in a process with other billing rules in its configuration.
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

// ApplyPatiently applies a fact in a transaction of its own. It tries again after a timeout of a lock.
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

// Propose proposes billing rules, as a process does, and returns the hash of the active ones.
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
	from, err := billing.HashInForce(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return billing.Switch(t.Context(), tx, from, rules, "ada", "a test")
	}); err != nil {
		t.Fatal(err)
	}
}

// Forecast returns the result of a change of the billing rules. It fails the test if a check of all accounts finds
// other differences.
func Forecast(t *testing.T, pool *pgxpool.Pool, from, to fact.Policy, now time.Time) rebuild.Forecast {
	t.Helper()
	all, err := rebuild.Check(t.Context(), Connect(t, pool), billing.Scope{}, to, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := rebuild.CheckRules(t.Context(), Connect(t, pool), from, to, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(all, changed.Differences) {
		t.Errorf("a check of all accounts finds %+v\na check of the change finds %+v", all, changed.Differences)
	}
	return changed
}

// Connect opens a connection for one check. It is closed at the end of the test.
func Connect(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Check returns the rows that differ from their facts by [Policy], in text form.
func Check(t *testing.T, pool *pgxpool.Pool, of billing.Scope, now time.Time) []string {
	t.Helper()
	return CheckWith(t, pool, of, Policy, now)
}

// CheckWith is [Check] with other billing rules.
func CheckWith(t *testing.T, pool *pgxpool.Pool, of billing.Scope, rules fact.Policy, now time.Time) []string {
	t.Helper()
	found, err := rebuild.Check(t.Context(), Connect(t, pool), of, rules, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, d := range found {
		lines = append(lines, d.String())
	}
	return lines
}

// Job is the recomputation of a job.
func Job(cause billing.Cause, id string, rules fact.Policy, now time.Time) billing.Recompute {
	return billing.Recompute{Cause: cause, Policy: rules, At: now, Job: id,
		Money: func(amount int64, currency string) string { return fmt.Sprint(amount, " ", currency) }}
}

// Count returns the number that a statement returns.
func Count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Texts returns the texts that a statement returns.
func Texts(t *testing.T, db schema.Querier, sql string) []string {
	t.Helper()
	list, err := schema.List[string](t.Context(), db, "read texts", sql)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
