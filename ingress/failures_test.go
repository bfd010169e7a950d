package ingress_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/schema/receipt"
)

// failing is a store whose inserts fail for the letter f, panic for p, and commit for any other letter.
type failing struct {
	ingress.Receipts
	ends string
}

func (f *failing) Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error) {
	end := f.ends[0]
	f.ends = f.ends[1:]
	switch end {
	case 'f':
		return nil, errors.New("no")
	case 'p':
		panic("no")
	}
	return f.Receipts.Insert(ctx, d)
}

// pawl counts its own failures since the last accepted delivery. Rejections of unsigned requests do not count.
func TestTally_OwnFailures_CountedInARow(t *testing.T) {
	t.Parallel()
	for ends, want := range map[string]string{"ok": "", "fofp": "2", "ffo": "0", "fff": "3"} {
		t.Run(ends, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
				c.Receipts = &failing{Receipts: c.Receipts, ends: ends}
			})
			for i, end := range ends {
				got := b.post(t, `{"id":"e`+string(rune('a'+i))+`"}`)
				if (got.status == http.StatusServiceUnavailable) != (end == 'f' || end == 'p') {
					t.Errorf("delivery %d: got %d", i, got.status)
				}
				if got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00")); got.status != http.StatusUnauthorized {
					t.Fatalf("got %d, want 401", got.status)
				}
			}
			// Simulate another process that failed before and recorded its failures.
			if ends == "ffo" {
				begun := receipt.Answers{Failures: receipt.Failures{Source: "shop", Failures: 7, Since: time.Now(), Last: time.Now()}}
				if err := b.store.CountAnswers(t.Context(), []receipt.Answers{begun}); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.srv.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got string
			_ = b.pool.QueryRow(t.Context(), `select coalesce(max(failures)::text, '') from source_failures`).Scan(&got)
			if got != want {
				t.Errorf("%q failures in a row, want %q", got, want)
			}
		})
	}
}

// clocked is a store whose inserts take longer than an answer should take, by the clock of the server, for s. Any other
// letter has the same meaning as for failing.
type clocked struct {
	failing
	now *atomic.Int64
}

func (c *clocked) Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error) {
	if c.ends[0] == 's' {
		c.now.Add(int64(receipt.SlowAnswer) + 1)
	}
	return c.failing.Insert(ctx, d)
}

// Late answers and deliveries that are not committed are counted, so that background work can wait. Refused requests do
// not count.
func TestTally_SlowAnswers_Counted(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		began := time.Now()
		c.Now = func() time.Time { return began.Add(time.Duration(now.Load())) }
		c.Receipts = &clocked{failing{Receipts: c.Receipts, ends: "osfos"}, &now}
	})
	for i := range 5 {
		b.post(t, `{"id":"e`+string(rune('a'+i))+`"}`)
		if got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00")); got.status != http.StatusUnauthorized {
			t.Fatalf("got %d, want 401", got.status)
		}
	}
	if err := b.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{"slow": 3, "admitted": 5} {
		if n := b.count(t, `select coalesce(sum(count), 0) from source_counts where what = '`+what+`'`); n != want {
			t.Errorf("%d requests are %s, want %d", n, what, want)
		}
	}
}
