package billing_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The newest address applies, whatever the order of the objects that contain an address. A value that only the
// customer object contains is ordered separately.
func TestKeepAddress_EveryOrder_TheNewest(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	state := billing.New(pool)
	of := func(second int, event string) fact.Subject {
		return fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: event, OccurredAt: at(second)}
	}
	told := []billing.Address{
		{Subject: of(0, "evt_1"), Rank: fact.RankCreated, Whole: true, Email: "a@x.test", Name: "A", Locale: "de", Zone: "Europe/Berlin"},
		{Subject: of(1, "evt_2"), Rank: fact.RankChange, Whole: true, Email: "b@x.test", Name: "B", Locale: "fr"},
		{Subject: of(1, "evt_3"), Email: "frozen@x.test"}, // an invoice that was finalized in the second of the change
		{Subject: of(5, "evt_5"), Email: "c@x.test", Name: "C"},
		{Subject: of(9, "evt_9")}, // an invoice without an address
	}
	want := billing.Address{Subject: of(0, ""), Email: "c@x.test", Name: "C", Locale: "fr"}
	want.OccurredAt = time.Time{}
	random := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
		if _, err := pool.Exec(t.Context(), `delete from addresses`); err != nil {
			t.Fatal(err)
		}
		for _, a := range append(told, told[0]) {
			keep(t, pool, a)
		}
		got, err := state.Address(t.Context(), want.Subject, "")
		if err != nil || got != want {
			t.Fatalf("after %+v: %+v, %v; want %+v", told, got, err, want)
		}
	}
}

// A deleted customer stays deleted, even if other objects with the customer's address arrive later.
func TestKeepAddress_Deleted_EveryOrder(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	of := func(second int, event string) fact.Subject {
		return fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: event, OccurredAt: at(second)}
	}
	told := []billing.Address{
		{Subject: of(1, "evt_1"), Rank: fact.RankChange, Whole: true, Email: "a@x.test"},
		{Subject: of(5, "evt_2"), Rank: fact.RankChange, Whole: true, Email: "a@x.test", Deleted: at(5)},
		{Subject: of(9, "evt_3"), Email: "late@x.test"},
	}
	for _, order := range permutations(len(told)) {
		if _, err := pool.Exec(t.Context(), `delete from addresses`); err != nil {
			t.Fatal(err)
		}
		for _, n := range order {
			keep(t, pool, told[n])
		}
		if got, err := billing.New(pool).Address(t.Context(), of(0, ""), ""); err != nil || !got.Deleted.Equal(at(5)) {
			t.Fatalf("after %v: %+v, %v", order, got, err)
		}
	}
}

// A customer of a connected account may have the same ID as a customer of the platform account. It does not change
// the address of the platform's customer.
func TestKeepAddress_ConnectedAccountsCustomer_Apart(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	ours := fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", EventID: "evt_1", OccurredAt: at(0)}
	theirs := ours
	theirs.ProviderAccount, theirs.OccurredAt = "acct_9", at(1)
	keep(t, pool, billing.Address{Subject: ours, Email: "ada@x.test"})
	keep(t, pool, billing.Address{Subject: theirs, Email: "eve@x.test"})
	if got, err := billing.New(pool).Address(t.Context(), ours, ""); err != nil || got.Email != "ada@x.test" {
		t.Errorf("%+v, %v", got, err)
	}
}

func keep(t *testing.T, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, a billing.Address) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return billing.KeepAddress(t.Context(), tx, a) }); err != nil {
		t.Fatal(err)
	}
}
