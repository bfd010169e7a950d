package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A worker has lost its claim, and records a result in the same flush as the new holder. In both orders the mark and
// the outcome of the new holder are written, and the result of the old worker is not.
func TestFlush_HolderAndTakenOver_EachGetsItsOwn(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int64{"the holder first": {2, 1}, "the holder last": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := schematest.New(t)
			schematest.Receipts(t, pool, "evt_1")
			s := New(pool, groupcommit.Config{})
			t.Cleanup(s.Close)
			c := Claim{Ref: schematest.Ref("evt_1"), Key: "finance-export:stripe:live:1", Kind: "finance-export", RunID: "r", Lease: time.Minute}
			for token := range int64(2) {
				if g, err := s.Claim(t.Context(), c); err != nil || g.Token != token+1 {
					t.Fatalf("grant %+v, %v", g, err)
				}
				if token == 0 {
					if _, err := pool.Exec(t.Context(), `update effects set lease_until = now() - interval '1 second'`); err != nil {
						t.Fatal(err)
					}
				}
			}
			var marks, finishes []op
			for _, token := range order {
				state, class := Done, Class("")
				if token == 1 {
					state, class = Failed, Permanent
				}
				marks = append(marks, op{mark: &hold{key: c.Key, token: token}})
				finishes = append(finishes, op{finish: &Finish{Key: c.Key, Token: token, State: state, Class: class, StartedAt: time.Now()}})
			}
			marked, err := s.flush(t.Context(), marks)
			if err != nil {
				t.Fatal(err)
			}
			finished, err := s.flush(t.Context(), finishes)
			if err != nil {
				t.Fatal(err)
			}
			for i, token := range order {
				if want := token == 2; marked[i].held != want || finished[i].finished.Held != want {
					t.Errorf("token %d: mark held %v, finish held %v; want %v", token, marked[i].held, finished[i].finished.Held, want)
				}
			}
			found, err := s.Read(t.Context(), []string{c.Key})
			if err != nil || found[c.Key].State != Done {
				t.Errorf("recorded %+v, %v; want the result of the holder", found[c.Key], err)
			}
		})
	}
}

// Two workers have one effect of each of two invoices. In one flush, each worker records its own effect and claims
// the effect of the other worker. The flushes must not deadlock.
func TestFlush_RecordsAndClaimsAcross_NoDeadlock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// On a busy machine the flushes wait for each other longer than a session's lock timeout.
	options := schematest.New(t).Config()
	options.ConnConfig.RuntimeParams["lock_timeout"] = "15s"
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	schematest.Receipts(t, pool, "evt_1")
	s := New(pool, groupcommit.Config{})
	t.Cleanup(s.Close)
	claim := func(key string) op {
		return op{claim: &Claim{Ref: schematest.Ref("evt_1"), Key: key, Kind: "kind", RunID: "r", Lease: time.Minute}}
	}
	finish := func(key string) op {
		return op{finish: &Finish{Key: key, Token: 1, State: Done, StartedAt: time.Now()}}
	}
	if _, err := s.flush(ctx, []op{claim("k:stripe:live:gate"), claim("k:stripe:live:m"), claim("k:stripe:live:z")}); err != nil {
		t.Fatal(err)
	}
	gate, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(ctx, `select from effects where key = 'k:stripe:live:gate' for update`); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	flush := func(waiting int, ops ...op) {
		go func() {
			_, err := s.flush(ctx, ops)
			results <- err
		}()
		for blocked := 0; blocked < waiting && ctx.Err() == nil && len(results) == 0; {
			if err := pool.QueryRow(ctx, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&blocked); err != nil {
				t.Fatal(err)
			}
		}
	}
	// blocks at the gate before it claims m
	flush(1, finish("k:stripe:live:z"), claim("k:stripe:live:gate"), claim("k:stripe:live:m"))
	flush(2, finish("k:stripe:live:m"), claim("k:stripe:live:z"))
	if err := gate.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Errorf("flush: %v", err)
		}
	}
	found, err := s.Read(ctx, []string{"k:stripe:live:m", "k:stripe:live:z"})
	if err != nil || found["k:stripe:live:m"].State != Done || found["k:stripe:live:z"].State != Done {
		t.Errorf("recorded %+v, %v", found, err)
	}
}

// A claim is refused if another effect holds its exclusive name. The other operations of the same commit are written
// once.
func TestFlush_ExclusiveHeld_RefusedWithoutAnError(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	schematest.Receipts(t, pool, "evt_1")
	s := New(pool, groupcommit.Config{})
	t.Cleanup(s.Close)
	claim := func(key, exclusive string) *Claim {
		return &Claim{Ref: schematest.Ref("evt_1"), Key: key, Kind: "k", Exclusive: exclusive, RunID: "r", Lease: time.Minute}
	}
	holder, err := s.Claim(t.Context(), *claim("k:stripe:live:held:1", "workspace:acme"))
	if err != nil || !holder.Granted {
		t.Fatalf("%+v, %v", holder, err)
	}
	other, err := s.Claim(t.Context(), *claim("k:stripe:live:other:1", ""))
	if err != nil || !other.Granted {
		t.Fatalf("%+v, %v", other, err)
	}
	out, err := s.flush(t.Context(), []op{
		{claim: claim("k:stripe:live:held:2", "workspace:acme")},
		{finish: &Finish{Key: "k:stripe:live:other:1", Token: other.Token, State: Done, StartedAt: time.Now()}},
		{claim: claim("k:stripe:live:other:2", "workspace:zeta")},
		{claim: claim("k:stripe:live:other:3", "workspace:zeta")},
		{claim: claim("k:stripe:live:other:4", "")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if g := out[0].grant; g.Granted || g.State != Claimed || g.LeaseUntil.IsZero() {
		t.Errorf("a held name: %+v", g)
	}
	if !out[1].finished.Held || !out[2].grant.Granted || !out[4].grant.Granted {
		t.Errorf("its neighbours: %+v, %+v, %+v", out[1].finished, out[2].grant, out[4].grant)
	}
	if g := out[3].grant; g.Granted || g.State != Claimed || g.LeaseUntil.IsZero() {
		t.Errorf("the second claim of a key in one commit: %+v", g)
	}
	// If a commit releases an effect, the same commit can claim it.
	out, err = s.flush(t.Context(), []op{
		{claim: claim("k:stripe:live:held:2", "workspace:acme")},
		{finish: &Finish{Key: "k:stripe:live:held:1", Token: holder.Token, State: Done, StartedAt: time.Now()}},
	})
	if err != nil || !out[0].grant.Granted {
		t.Errorf("%+v, %v; want a grant", out, err)
	}
}
