package breaker_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Made: breaker.Made})
}

// Two workers share one database: if one worker opens a breaker, it is open for both; only one of them probes; Close
// returns true to only one of them.
func TestBreaker_TwoWorkers(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	one, other := breaker.New(pool), breaker.New(pool)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(s *breaker.Store) breaker.Breaker {
		t.Helper()
		list, err := s.All(ctx)
		if err != nil || len(list) != 1 || list[0].Sink != "finance" {
			t.Fatalf("breakers %+v, %v", list, err)
		}
		return list[0]
	}
	claim := func(s *breaker.Store, lease time.Duration) bool {
		t.Helper()
		probes, err := s.Probe(ctx, "finance", lease)
		must(err)
		return probes
	}

	must(one.Open(ctx, "finance", breaker.Failures{Reason: "answered 503"}, time.Hour))
	opened := read(other)
	if !opened.Open || opened.Reason != "answered 503" || opened.ProbeIn < 59*time.Minute || opened.ProbeIn > time.Hour {
		t.Errorf("opened as %+v", opened)
	}
	must(other.Open(ctx, "finance", breaker.Failures{Reason: "answered 500"}, 0))
	if again := read(one); again.Reason != "answered 503" || !again.Since.Equal(opened.Since) {
		t.Errorf("opened twice: %+v, want it as it was", again)
	}
	if claim(one, time.Hour) {
		t.Error("a probe went through before its time")
	}
	must(one.Failed(ctx, "finance", breaker.Failures{Reason: "answered 502"}, 0))
	if now := read(other); now.Probes != 1 || now.Reason != "answered 502" || !now.Since.Equal(opened.Since) {
		t.Errorf("after a probe: %+v", now)
	}
	if !claim(one, time.Hour) || claim(other, time.Hour) {
		t.Error("want one probe, by who came first")
	}
	first, err := other.Close(ctx, "finance")
	must(err)
	second, err := one.Close(ctx, "finance")
	must(err)
	if !first || second {
		t.Errorf("closed %t and %t, want one to have closed it", first, second)
	}
	if now := read(one); now.Open || now.Reason != "" || !now.Since.After(opened.Since) {
		t.Errorf("closed as %+v", now)
	}
	if claim(one, time.Hour) {
		t.Error("a closed one is probed")
	}
	must(one.Open(ctx, "finance", breaker.Failures{Reason: "answered 500"}, 0))
	if now := read(one); !now.Open || now.Probes != 0 {
		t.Errorf("opened again as %+v", now)
	}
}
