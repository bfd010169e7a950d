package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// What an effect outside our database costs in ours: a claim, and a finish. Callers at the same moment
// share commits.
func BenchmarkClaimFinish(b *testing.B) {
	for _, parallel := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(2*parallel), func(b *testing.B) {
			store := ledger.New(schematest.New(b))
			b.Cleanup(store.Close)
			var n atomic.Int64
			receiptID := uuid.NewString()
			b.ReportAllocs()
			b.SetParallelism(parallel)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					c := ledger.Claim{
						Key: fmt.Sprint("benchmark:", n.Add(1)), Kind: "benchmark", ReceiptID: receiptID, EventID: "evt_1",
						WorkflowID: "stripe:evt_1", RunID: "run", Lease: 10 * time.Second, Request: []byte(`{"state":"active"}`),
					}
					grant, err := store.Claim(ctx, c)
					if err != nil || !grant.Granted {
						b.Errorf("claim: %+v, %v", grant, err)
						return
					}
					done := ledger.Finish{Key: c.Key, Token: grant.Token, State: ledger.Done, Result: json.RawMessage(`{}`), StartedAt: time.Now()}
					if finished, err := store.Finish(ctx, done); err != nil || !finished.Held {
						b.Errorf("finish: %+v, %v", finished, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}
