package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The benchmark measures the cost in pawl's database of an effect that happens outside of it: a claim and a finish.
// Concurrent callers share commits.
func BenchmarkClaimFinish(b *testing.B) {
	for _, parallel := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(2*parallel), func(b *testing.B) {
			pool := schematest.New(b)
			schematest.Receipts(b, pool, "evt_1")
			store := ledger.New(pool, groupcommit.Config{})
			b.Cleanup(store.Close)
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(parallel)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					doOne(b, store, benchmarked(n.Add(1)))
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}

func benchmarked(n int64) ledger.Claim {
	return ledger.Claim{
		Ref:     schematest.Ref("evt_1"),
		Key:     fmt.Sprint("benchmark:stripe:live:", n),
		Kind:    "benchmark",
		RunID:   "run",
		Lease:   10 * time.Second,
		Request: []byte(`{"state":"active"}`),
	}
}

// doOne claims and finishes an effect.
func doOne(b *testing.B, store *ledger.Store, c ledger.Claim) {
	ctx := context.Background()
	grant, err := store.Claim(ctx, c)
	if err != nil || !grant.Granted {
		b.Errorf("claim: %+v, %v", grant, err)
		return
	}
	done := ledger.Finish{Key: c.Key, Token: grant.Token, State: ledger.Done, Result: json.RawMessage(`{}`), StartedAt: time.Now()}
	if finished, err := store.Finish(ctx, done); err != nil || !finished.Held {
		b.Errorf("finish: %+v, %v", finished, err)
	}
}

// The benchmark measures effects while other effects wait for an exclusive name and retry as effect.Runner does:
// after 20 ms, 40 ms, … 200 ms, for a second, and again after another second.
func BenchmarkClaimFinish_OthersWait(b *testing.B) {
	for _, waiters := range []int{0, 50} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			pool := schematest.New(b)
			schematest.Receipts(b, pool, "evt_1")
			store := ledger.New(pool, groupcommit.Config{})
			b.Cleanup(store.Close)
			holder := benchmarked(-1)
			holder.Exclusive, holder.Lease = "workspace:acme", time.Hour
			if grant, err := store.Claim(b.Context(), holder); err != nil || !grant.Granted {
				b.Fatalf("%+v, %v", grant, err)
			}
			ctx, stop := context.WithCancel(b.Context())
			var waiting sync.WaitGroup
			for i := range waiters {
				c := benchmarked(int64(-2 - i))
				c.Exclusive = holder.Exclusive
				waiting.Go(func() {
					for ctx.Err() == nil {
						pause := 20 * time.Millisecond
						for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < time.Second; pause = min(2*pause, 200*time.Millisecond) {
							if grant, err := store.Claim(ctx, c); ctx.Err() == nil && (err != nil || grant.Granted) {
								b.Errorf("waiter: %+v, %v", grant, err)
							}
							rest(ctx, pause)
						}
						rest(ctx, time.Second)
					}
				})
			}
			var n atomic.Int64
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					doOne(b, store, benchmarked(n.Add(1)))
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
			stop()
			waiting.Wait()
		})
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
