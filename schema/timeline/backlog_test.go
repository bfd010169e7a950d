package timeline_test

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestReadBacklog_CountsAgeAndMoneyByCause(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if empty, err := timeline.ReadBacklog(t.Context(), db); err != nil || len(empty.Waiting) != 0 || empty.Oldest != nil {
		t.Fatalf("of nothing: %+v, %v", empty, err)
	}
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 's', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid',
		       '2026-01-01T10:00:00Z'::timestamptz + n * interval '1 minute', '\x01', status, reason
		  from (values (1, 'processed', ''), (2, 'dead', 'effect_failed: finance-export is failed'), (3, 'dead', 'effect_failed: other words'),
		               (4, 'dead', 'effect_failed: the same invoice'), (5, 'dead', 'effect_failed: euros'), (6, 'needs_review', 'suspected_replay: x'),
		               (7, 'retrying', 'sink_down: finance is down'), (8, 'retrying', 'sink_down: finance is down'), (9, 'processing', ''),
		               (10, 'received', ''), (11, 'ignored', 'type_ignored')) as t(n, status, reason)`)
	exec(t, db, `insert into event_subjects (receipt_id, object, main, amount, currency)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, object, true, amount, currency
		  from (values (1, 'in_1', 1, 'usd'), (2, 'in_2', 49900, 'usd'), (3, 'in_3', 100, 'usd'), (4, 'in_3', 100, 'usd'), (5, 'in_5', 7000, 'eur')) as t(n, object, amount, currency)`)
	b, err := timeline.ReadBacklog(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	minute := func(n int) time.Time { return time.Date(2026, 1, 1, 10, n, 0, 0, time.UTC) }
	check := func(name string, got, want []timeline.Cause) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %+v, want %d causes", name, got, len(want))
		}
		for i, w := range want {
			if g := got[i]; g.Status != w.Status || g.ReasonCode != w.ReasonCode || g.Events != w.Events || !g.Oldest.Equal(w.Oldest) || !maps.Equal(g.Money, w.Money) {
				t.Errorf("%s %d: %+v, want %+v", name, i, g, w)
			}
		}
	}
	parked := func() (causes []timeline.Cause) {
		t.Helper()
		found, err := timeline.ReadParked(t.Context(), db, []string{"invoice.%"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if !p.Financial || p.Mode != "live" {
				t.Errorf("parked: %+v, want financial events in live mode", p)
			}
			causes = append(causes, p.Cause)
		}
		return causes
	}
	check("parked", parked(), []timeline.Cause{
		{"dead", "effect_failed", 4, minute(2), map[string]int64{"usd": 50000, "eur": 7000}}, // in_3 is counted once
		{"needs_review", "suspected_replay", 1, minute(6), map[string]int64{}},
	})
	check("waiting", b.Waiting, []timeline.Cause{
		{Status: "retrying", ReasonCode: "sink_down", Events: 2, Oldest: minute(7)},
		{Status: "processing", Events: 1, Oldest: minute(9)},
		{Status: "received", Events: 1, Oldest: minute(10)},
	})
	if b.Oldest == nil || b.Oldest.EventID != "evt_2" || b.Oldest.Status != "dead" {
		t.Errorf("the oldest is %+v, want evt_2", b.Oldest)
	}
	exec(t, db, `update receipts set object_id = 'in_3' where event_id in ('evt_3', 'evt_4')`)
	for most, want := range map[int]map[string]int64{4: {"usd": 50000, "eur": 7000}, 3: {}} {
		if sum, err := timeline.SumUp(t.Context(), db, timeline.Filter{Status: "dead"}, most); err != nil || sum.Events != 4 || !maps.Equal(sum.Money, want) {
			t.Errorf("of at most %d: %+v, %v, want 4 with %v", most, sum, err, want)
		}
	}
}

// A payload may contain any amount, and the sum of two such amounts can exceed 64 bits.
func TestReadParked_AmountsBeyond64Bits_SumIsCapped(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 's', 'stripe', 'test', 'evt_' || n, 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: words'
		  from generate_series(1, 3) n`)
	exec(t, db, `insert into event_subjects (receipt_id, object, main, amount, currency)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'in_' || n, true, amount, currency
		  from (values (1, 9223372036854775807, 'usd'), (2, 9223372036854775807, 'usd'), (3, 4900, 'eur')) as t(n, amount, currency)`)
	want := map[string]int64{"usd": math.MaxInt64, "eur": 4900}
	parked, err := timeline.ReadParked(t.Context(), db, nil)
	if err != nil || len(parked) != 1 || parked[0].Events != 3 || parked[0].Financial || !maps.Equal(parked[0].Money, want) {
		t.Errorf("%+v, %v, want 3 parked events with %v", parked, err, want)
	}
	sum, err := timeline.SumUp(t.Context(), db, timeline.Filter{Status: "dead"}, 10)
	if err != nil || sum.Events != 3 || !maps.Equal(sum.Money, want) {
		t.Errorf("%+v, %v, want 3 with %v", sum, err, want)
	}
}
