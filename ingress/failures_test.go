package ingress_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
