package withheld_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/withheld"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements_AreUnderstood(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// A restart, another process or a changed file does not change the time of the first start.
func TestBegin_SecondStart_KeepsTheTime(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	begin := func(at string, modes ...string) []withheld.From {
		t.Helper()
		if err := withheld.Begin(t.Context(), db, modes, at, "the first start"); err != nil {
			t.Fatal(err)
		}
		all, err := withheld.All(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := begin("now", "live")
	if len(first) != 1 || first[0].Mode != "live" || first[0].At == nil || !first[0].At.Equal(first[0].At.Truncate(time.Second)) || time.Since(*first[0].At) > time.Minute {
		t.Fatalf("the first start stores %+v, want the second of now", first)
	}
	second := begin("off", "live", "test")
	if len(second) != 2 || !second[0].At.Equal(*first[0].At) || second[1].Mode != "test" || second[1].At != nil {
		t.Errorf("the second start stores %+v, want live as it was and test off", second)
	}
	if err := withheld.Set(t.Context(), db, "test", first[0].At, "ada"); err != nil {
		t.Fatal(err)
	}
	third := begin("2026-12-01T00:00:00Z", "live", "test")
	if len(third) != 2 || third[1].At == nil || !third[1].At.Equal(*first[0].At) || third[1].ChangedBy != "ada" {
		t.Errorf("after a person has changed it: %+v", third)
	}
}

func TestBegin_ATime_IsStored(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if err := withheld.Begin(t.Context(), db, []string{"live"}, "2026-12-01T00:00:00Z", "x"); err != nil {
		t.Fatal(err)
	}
	all, err := withheld.All(t.Context(), db)
	if err != nil || len(all) != 1 || !all[0].At.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", all, err)
	}
}

// Effects that were done or released in the meantime are no longer withheld.
func TestSums_CountWhatIsLeft(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	one, other := uuid.NewString(), uuid.NewString()
	amount, most := int64(4900), int64(9_223_372_036_854_775_807)
	add := func(receipt string, records ...withheld.Record) {
		t.Helper()
		if err := withheld.Add(t.Context(), db, "live", receipt, records); err != nil {
			t.Fatal(err)
		}
	}
	add(one, withheld.Record{Key: "finance-export:a", Kind: "finance-export", Amount: &amount, Currency: "usd"},
		withheld.Record{Key: "receipt-email:a", Kind: "receipt-email"}, withheld.Record{Key: "x#000", Kind: withheld.Event, Detail: []byte(`{"a":1}`)})
	// another event records the same effect
	add(other, withheld.Record{Key: "finance-export:a", Kind: "finance-export", Amount: &amount, Currency: "usd"},
		withheld.Record{Key: "finance-export:b", Kind: "finance-export", Amount: &most, Currency: "usd"})
	count := func() (list []int) {
		t.Helper()
		sums, err := withheld.Sums(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sums {
			list = append(list, s.Effects)
			if s.Kind == "finance-export" && s.Effects == 2 && s.Money["usd"] != most {
				t.Errorf("the sum is %v, want it capped", s.Money)
			}
		}
		return list
	}
	if got := count(); !slices.Equal(got, []int{2, 1, 1}) {
		t.Errorf("withheld %v", got)
	}
	if _, err := db.Exec(t.Context(), `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until) values ('receipt-email:a', 'receipt-email', 'done', $1::uuid, 'e', 'r', now())`, other); err != nil {
		t.Fatal(err)
	}
	if got := count(); !slices.Equal(got, []int{2, 1}) {
		t.Errorf("after another event has sent the letter: %v", got)
	}
	released, err := withheld.Release(t.Context(), db, one)
	if err != nil || len(released) != 3 || string(released[2].Detail) != `{"a": 1}` {
		t.Errorf("released %+v, %v", released, err)
	}
	if got := count(); !slices.Equal(got, []int{1}) {
		t.Errorf("after a release: %v", got)
	}
	if again, err := withheld.Release(t.Context(), db, one); err != nil || len(again) != 0 {
		t.Errorf("released again: %+v, %v", again, err)
	}
}
