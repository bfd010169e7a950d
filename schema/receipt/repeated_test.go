package receipt_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// If a provider delivers a parked event again and again, a person should examine the event. A single repetition, old
// repetitions, and repetitions of a processed event do not count.
func TestReadRepeated_ParkedEventsThatKeepComing(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, duplicates)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'stripe', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', now() - interval '1 day', '\x01', status, 'effect_failed: x', duplicates
			  from (values (1, 'dead', 5), (2, 'needs_review', 3), (3, 'dead', 1), (4, 'processed', 9), (5, 'dead', 9)) as t(n, status, duplicates)`,
		`insert into redeliveries (receipt_id, source, received_at, body_hash)
			select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'stripe', now() - ago, '\x01'
			  from (values (1, 5, interval '10 minutes'), (2, 3, interval '20 minutes'), (3, 1, interval '1 minute'), (4, 9, interval '1 minute'), (5, 9, interval '5 hours')) as t(n, times, ago),
			       generate_series(1, times)`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	found, err := receipt.ReadRepeated(t.Context(), db)
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v; want one source", found, err)
	}
	if got := found[0]; got.Source != "stripe" || got.Mode != "live" || got.Events != 2 || got.Deliveries != 8 || got.EventID != "evt_1" {
		t.Errorf("%+v, want 2 events with 8 deliveries, evt_1 the most", got)
	}
}
