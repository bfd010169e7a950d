package ingress_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// BenchmarkSenders measures valid deliveries of 1 KB: alone, during 500 hostile connections, during batches of 10,000
// events, and during bodies of 24 MiB. The other senders share the process and its cores with the server.
//
// go test ./ingress -run '^$' -bench Senders -benchtime 2000x
func BenchmarkSenders(b *testing.B) {
	for _, c := range []struct {
		name   string
		others func(*bench, testing.TB) (stop func())
	}{
		{"alone", func(*bench, testing.TB) func() { return func() {} }},
		{"attacked", (*bench).attack},
		{"batches", func(s *bench, b testing.TB) func() {
			return s.meanwhile(b, func(n int) string {
				var items []string
				for i := range 10_000 {
					items = append(items, fmt.Sprintf(`{"id":"b%d-%d"}`, n, i))
				}
				return "[" + strings.Join(items, ",") + "]"
			})
		}},
		{"large", func(s *bench, b testing.TB) func() {
			return s.meanwhile(b, func(n int) string { return fmt.Sprintf(`{"id":"l%d","pad":"%s"}`, n, strings.Repeat("x", 24<<20)) })
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := startWith(b, schematest.New(b), receipt.Options{}, ingress.Limits{}, func(_ *ingress.Config, source *ingress.Source) { source.BodyLimit = 25 << 20 })
			var refused int
			valid := func(id string) time.Duration {
				body := fmt.Sprintf(`{"id":"%s","type":"paid","pad":"%s"}`, id, strings.Repeat("x", 1000))
				r := request(b, http.MethodPost, s.url+"/hooks/shop", strings.NewReader(body), "X-Sig", sign([]byte(body)))
				begin := time.Now()
				resp, err := http.DefaultClient.Do(r)
				took := time.Since(begin)
				if err != nil || resp.StatusCode != http.StatusAccepted {
					refused++
				}
				if err == nil {
					_ = resp.Body.Close()
				}
				return took
			}
			valid("connects to the database")
			stop := c.others(s, b)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				took = append(took, valid(fmt.Sprintf("e%d", i)))
			}
			stop()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(refused), "refused")
		})
	}
}

// meanwhile delivers bodies one after another until stop is called. The answer to each must be 2xx.
func (b *bench) meanwhile(t testing.TB, body func(n int) string) (stop func()) {
	t.Helper()
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; !ended.Load(); n++ {
			text := body(n)
			resp, err := http.DefaultClient.Do(request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(text), "X-Sig", sign([]byte(text))))
			if err != nil {
				t.Error(err)
				continue
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusAccepted {
				t.Errorf("the large one: got %d, want 202", resp.StatusCode)
			}
		}
	}()
	return func() { ended.Store(true); <-done }
}
