package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestStatements_AreUnderstood(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// For any number of processes, at most the quota of requests per second is admitted. All other requests wait.
func TestTake_ManyAtOnce_EachSecondHasItsFill(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	const perSecond, requests = 4, 10
	var mu sync.Mutex
	in := map[int64]int{}
	var wg sync.WaitGroup
	for range requests {
		s := quota.New(pool) // simulates a separate process
		wg.Go(func() {
			if err := s.Take(t.Context(), "stripe", perSecond); err != nil {
				t.Error(err)
				return
			}
			var second int64
			// The row contains the second that admitted the newest request.
			if err := pool.QueryRow(t.Context(), `select second from quotas where name = 'stripe'`).Scan(&second); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			in[second]++
		})
	}
	wg.Wait()
	if len(in) < 2 {
		t.Errorf("%d requests went through in %v, want them in several seconds", requests, in)
	}
	for name, most := range map[string]int{"stripe": perSecond, "other": 1} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := quota.New(pool).Take(ctx, name, most); err != nil {
			t.Error(err)
		}
	}
}

func TestTake_ContextEnds_SaysWhy(t *testing.T) {
	t.Parallel()
	s := quota.New(schematest.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Take(ctx, "stripe", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Take() = %v", err)
	}
}
