package receipt_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/localpg"
	"github.com/pawlhq/pawl/schema/receipt"
)

// plain sends one statement per request: each batch has one request, and there are as many concurrent flushes as
// connections.
var plain = groupcommit.Config{InFlight: 32, MaxBatch: 1}

// BenchmarkInsert compares group commits with one statement per request, with the same number of callers, on a server
// that syncs to disk.
func BenchmarkInsert(b *testing.B) {
	server, err := localpg.Start(b.Context(), localpg.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := server.EnsureDatabase(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	if err := schema.Migrate(b.Context(), server.DSN("bench"), slog.New(slog.DiscardHandler)); err != nil {
		b.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(server.DSN("bench"))
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)

	body := bytes.Repeat([]byte("x"), 1200)
	for _, callers := range []int{1, 16, 64, 256} {
		for _, mode := range []struct {
			name   string
			commit groupcommit.Config
		}{
			{"plain", plain},
			{"grouped-1", groupcommit.Config{InFlight: 1}},
			{"grouped-2", groupcommit.Config{InFlight: 2}},
			{"grouped-3", groupcommit.Config{InFlight: 3}},
			{"grouped-4", groupcommit.Config{InFlight: 4}},
		} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, mode.name), func(b *testing.B) {
				s := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second, Commit: mode.commit})
				b.Cleanup(s.Close)
				work := make(chan struct{}, b.N)
				for range b.N {
					work <- struct{}{}
				}
				close(work)
				b.ResetTimer()
				done := make(chan error, callers)
				for range callers {
					go func() {
						for range work {
							e := event(uuid.NewString())
							e.Body = body
							if _, err := s.Insert(context.Background(), delivery(e)); err != nil {
								done <- err
								return
							}
						}
						done <- nil
					}()
				}
				for range callers {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "inserts/s")
			})
		}
	}
}
