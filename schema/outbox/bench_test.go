package outbox_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The benchmark measures taking from the outbox while 50,000 events wait for a destination that is down. Each
// iteration takes the one event that is due.
func BenchmarkTake(b *testing.B) {
	for name, account := range map[string]string{"nobody waits": "", "of one account": "'a'", "of 50,000 accounts": "'a' || n"} {
		b.Run(name, func(b *testing.B) {
			pool := schematest.New(b)
			store := outbox.New(pool)
			if account != "" {
				if _, err := pool.Exec(b.Context(), `
					insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, next_at)
					select gen_random_uuid(), 'live', `+account+`, 'invoice.paid', gen_random_uuid(), 'key', '{}', now() + interval '1 hour' from generate_series(1, 50000) n`); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := pool.Exec(b.Context(), `
				insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
				select gen_random_uuid(), 'live', 'due ' || n, 'invoice.paid', gen_random_uuid(), 'key', '{}' from generate_series(1, 2000) n`); err != nil {
				b.Fatal(err)
			}
			if _, err := pool.Exec(b.Context(), `vacuum analyze outbox`); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				taken, err := store.Take(b.Context(), 1, time.Millisecond)
				if err != nil || len(taken) != 1 {
					b.Fatalf("%d taken, %v", len(taken), err)
				}
			}
		})
	}
}
