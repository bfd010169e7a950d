package billing_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

// applyEach applies each fact as a separate event, and returns the last change.
func applyEach(t *testing.T, tx pgx.Tx, facts []fact.Fact) (last fold.Change, err error) {
	t.Helper()
	for _, f := range events(facts, true) {
		if last, err = billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, "apply:"+f.EventID, at(1000)); err != nil {
			return last, err
		}
	}
	return last, nil
}

// If a person fetches an unknown subscription that began before effects, it has no effects. If the subscription was
// known, the difference is published.
func TestApply_Reconciled_FromBeforeEffects_Silent(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	if _, err := pool.Exec(t.Context(), `insert into effects_from (mode, at, changed_by) values ('live', $1, 'a test')`, at(100)); err != nil {
		t.Fatal(err)
	}
	seen := func(second, began int) fact.Fact {
		f := created(second, "active", "pro", origin(fact.FromFetch))
		f.Subscription.Start, f.EventType = at(began), fact.Reconciled
		return f
	}
	for _, tt := range []struct {
		name  string
		facts []fact.Fact
		want  bool
	}{
		{"unknown, and began before", []fact.Fact{seen(200, 10)}, true},
		{"unknown, and began since", []fact.Fact{seen(200, 150)}, false},
		{"known before", []fact.Fact{created(10, "incomplete", "pro"), seen(200, 10)}, false},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			last, err := applyEach(t, tx, tt.facts)
			if err != nil {
				return err
			}
			if last.Silent != tt.want {
				t.Errorf("%s: silent %v, want %v", tt.name, last.Silent, tt.want)
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	}
}

// An open invoice from before the start of effects causes no reminders after a person has reconciled it.
func TestApply_ReconciledInvoice_FromBeforeEffects_NoReminder(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	if _, err := pool.Exec(t.Context(), `insert into effects_from (mode, at, changed_by) values ('live', $1, 'a test')`, at(100)); err != nil {
		t.Fatal(err)
	}
	seen := func(second, created int) fact.Fact {
		f := invoice(1, second, "open", "pro", origin(fact.FromFetch))
		f.Invoice.DueAt, f.Invoice.CreatedAt, f.EventType = at(100_000), at(created), fact.Reconciled
		return f
	}
	known := invoice(1, 10, "open", "pro", func(f *fact.Fact) { f.Invoice.DueAt = at(100_000) })
	for _, tt := range []struct {
		name     string
		facts    []fact.Fact
		silent   bool
		reminded bool
	}{
		{"created before", []fact.Fact{seen(200, 10)}, true, false},
		{"created since", []fact.Fact{seen(200, 150)}, false, true},
		{"known from before", []fact.Fact{known, seen(200, 10)}, false, false},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			last, err := applyEach(t, tx, tt.facts)
			if err != nil {
				return err
			}
			var reminders int
			if err := tx.QueryRow(t.Context(), `select count(*) from due where why = 'dunning'`).Scan(&reminders); err != nil {
				return err
			}
			if last.Silent != tt.silent || reminders > 0 != tt.reminded {
				t.Errorf("%s: silent %v with %d reminders due, want %v and %v", tt.name, last.Silent, reminders, tt.silent, tt.reminded)
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	}
}
