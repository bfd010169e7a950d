package receipt_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// An attacker with one delivery can send it under any number of unsigned IDs. All of them are one suspected replay,
// and the bytes are stored once, even if the delivery is ignored or cannot run.
func TestInsert_UnsignedID_SameBytesUnderManyIDs_CountedOnTheFirstReplay(t *testing.T) {
	t.Parallel()
	for _, status := range []receipt.Status{receipt.Received, receipt.Ignored, receipt.NeedsReview} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, at once %t", status, atOnce), func(t *testing.T) {
				t.Parallel()
				s, pool := setup(t)
				const replays = 40
				body := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16)) // 1 MiB
				captured := func(id string) receipt.Delivery {
					e := unsigned(id, body)
					if e.Status = status; status != receipt.Received {
						e.Reason = `type_ignored: "invoice.paid"`
					}
					return delivery(e)
				}
				first := mustInsert(t, s, captured("guid"))[0]
				size := count(t, pool, `select pg_total_relation_size('receipt_bodies')`)
				var wg sync.WaitGroup
				for i := range replays {
					replay := func() {
						out, err := s.Insert(t.Context(), captured(fmt.Sprint("replay-", i)))
						// retry the delivery, because a lock took too long
						for begin := time.Now(); err != nil && time.Since(begin) < time.Minute; {
							out, err = s.Insert(t.Context(), captured(fmt.Sprint("replay-", i)))
						}
						if err != nil || out[0].Uncounted != nil {
							t.Errorf("got %+v, %v", out, err)
						}
					}
					if atOnce {
						wg.Go(replay)
					} else {
						replay()
					}
				}
				wg.Wait()
				rows, counted := 1, replays
				if status == receipt.Received {
					rows, counted = 2, replays-1
				}
				if n := count(t, pool, `select count(*) from receipts`); n != rows {
					t.Errorf("%d receipts, want %d", n, rows)
				}
				if n := count(t, pool, `select sum(duplicates) from receipts`); n != counted {
					t.Errorf("%d deliveries are counted, want %d", n, counted)
				}
				if grown := count(t, pool, `select pg_total_relation_size('receipt_bodies')`) - size; grown > 1<<18 {
					t.Errorf("the bodies have grown by %d bytes, want them kept once", grown)
				}
				if status != receipt.Received {
					return
				}
				var replayed string
				if err := pool.QueryRow(t.Context(), `select id::text from receipts where replayed and duplicates = $1 and reason = $2`,
					counted, "suspected_replay: same bytes as guid").Scan(&replayed); err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{first.ReceiptID, replayed} {
					if got, err := s.Body(t.Context(), id); err != nil || string(got.Bytes) != body {
						t.Errorf("body of %d bytes, %v; want all", len(got.Bytes), err)
					}
				}
				if _, err := pool.Exec(t.Context(), `delete from receipt_bodies where receipt_id = $1`, first.ReceiptID); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Body(t.Context(), replayed); err == nil {
					t.Errorf("body of %d bytes after it was erased", len(got.Bytes))
				}
			})
		}
	}
}

// A provider may send one body as several events that only differ in an unsigned type. Each type is stored and
// parked, up to a limit, because an attacker can invent types.
func TestInsert_UnsignedID_SameBytesUnderOtherTypes_EachKept(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	send := func(id, eventType string) receipt.Outcome {
		e := unsigned(id, "order 1")
		e.Type = eventType
		return mustInsert(t, s, delivery(e))[0]
	}
	send("w1", "orders/create")
	for i, eventType := range []string{"orders/paid", "orders/updated", "orders/fulfilled"} {
		if out := send(fmt.Sprint("other", i), eventType); out.Duplicate || out.Status != receipt.NeedsReview {
			t.Errorf("%s: %+v, want it kept for a person", eventType, out)
		}
		if out := send(fmt.Sprint("again", i), eventType); !out.Duplicate {
			t.Errorf("%s again: %+v, want a duplicate", eventType, out)
		}
	}
	for i := range 40 {
		send(fmt.Sprint("invented", i), fmt.Sprint("invented/", i))
	}
	if n := count(t, pool, `select count(*) from receipts`); n != 17 {
		t.Errorf("%d receipts, want the first and 16 replays", n)
	}
}

// All duplicates are counted, but the list of deliveries has a limited length.
func TestInsert_Duplicates_ListedUpToABound(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, delivery(event("evt_1"), unsigned("guid", "bytes")))
	if _, err := pool.Exec(t.Context(), `update receipts set duplicates = 1000`); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, s, delivery(event("evt_1")))
	mustInsert(t, s, delivery(event("evt_1"), event("evt_2")))
	mustInsert(t, s, delivery(unsigned("guid", "bytes")))
	mustInsert(t, s, delivery(event("evt_1"), event("evt_1"))) // the second event is counted after the flush
	if n := count(t, pool, `select sum(duplicates) from receipts`); n != 2005 {
		t.Errorf("%d duplicates are counted, want 2005", n)
	}
	if n := count(t, pool, `select count(*) from redeliveries`); n != 0 {
		t.Errorf("%d more deliveries are listed, want none", n)
	}
}

// sent returns a delivery of a signed body in the form that a provider sends to a subscription.
func sent(id, topic, occurrence, hook string) receipt.New {
	e := unsigned(id, "order 1")
	e.Account, e.Type, e.Occurrence, e.Hook, e.RelayOnly = "shop", topic, occurrence, hook, true
	return e
}

// Two subscriptions to one topic deliver an event twice under different IDs. The second delivery is a duplicate if
// the provider's event ID is the same and the deliveries arrive within ten minutes. In this case no event is parked.
func TestInsert_UnsignedID_SameOccurrence_Duplicate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second    receipt.New
		later     time.Duration
		duplicate bool
		status    receipt.Status
	}{
		"same event":                 {sent("w2", "orders/create", "6f1c", ""), time.Minute, true, receipt.Received},
		"same event, came first":     {sent("w2", "orders/create", "6f1c", ""), -time.Minute, true, receipt.Received},
		"same event, later":          {sent("w2", "orders/create", "6f1c", ""), 11 * time.Minute, false, receipt.NeedsReview},
		"another event":              {sent("w2", "orders/create", "7a2d", ""), time.Minute, false, receipt.NeedsReview},
		"no event ID":                {sent("w2", "orders/create", "", ""), time.Minute, false, receipt.NeedsReview},
		"same event, another shop":   {func() receipt.New { e := sent("w2", "orders/create", "6f1c", ""); e.Account = "other"; return e }(), time.Minute, false, receipt.NeedsReview},
		"same event, has effects":    {func() receipt.New { e := sent("w2", "orders/create", "6f1c", ""); e.RelayOnly = false; return e }(), time.Minute, true, receipt.Received},
		"another topic":              {sent("w2", "orders/paid", "6f1c", ""), time.Minute, false, receipt.Received},
		"another topic, has effects": {func() receipt.New { e := sent("w2", "orders/paid", "6f1c", ""); e.RelayOnly = false; return e }(), time.Minute, false, receipt.NeedsReview},
		"another topic and shop":     {func() receipt.New { e := sent("w2", "orders/paid", "6f1c", ""); e.Account = "other"; return e }(), time.Minute, false, receipt.NeedsReview},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pool := setup(t)
			first := delivery(sent("w1", "orders/create", "6f1c", ""))
			mustInsert(t, s, first)
			second := delivery(c.second)
			second.ReceivedAt = first.ReceivedAt.Add(c.later)
			out := mustInsert(t, s, second)[0]
			if out.Duplicate != c.duplicate || out.Status != c.status {
				t.Errorf("got %+v, want duplicate %t and %s", out, c.duplicate, c.status)
			}
			if n := count(t, pool, `select count(*) from receipts`); n != map[bool]int{true: 1, false: 2}[c.duplicate] {
				t.Errorf("%d receipts", n)
			}
			if !c.duplicate {
				if got, err := s.Get(t.Context(), out.ReceiptID); err != nil || !got.Replayed {
					t.Errorf("%+v, %v; want it marked", got, err)
				}
			}
			if got, err := s.Body(t.Context(), out.ReceiptID); err != nil || string(got.Bytes) != "order 1" {
				t.Errorf("body %q, %v", got.Bytes, err)
			}
		})
	}
}

// Two webhook subscriptions (hooks) of one sender deliver the same bytes. pawl relays and marks the event for each
// hook. A missing hook or a known hook does not count as another hook.
func TestInsert_UnsignedID_OtherHook_RelayedAndMarked(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, delivery(sent("d1", "push", "", "hook-1")))
	for _, c := range []struct {
		id, hook  string
		duplicate bool
		status    receipt.Status
	}{
		{"d2", "hook-2", false, receipt.Received},
		{"d3", "hook-2", true, receipt.Received},
		{"d4", "hook-3", false, receipt.Received},
		{"d5", "", false, receipt.NeedsReview},
		{"d6", "hook-1", false, receipt.NeedsReview},
		{"d7", "hook-1", true, receipt.NeedsReview},
	} {
		if out := mustInsert(t, s, delivery(sent(c.id, "push", "", c.hook)))[0]; out.Duplicate != c.duplicate || out.Status != c.status {
			t.Errorf("%s of hook %q: got %+v, want duplicate %t and %s", c.id, c.hook, out, c.duplicate, c.status)
		}
	}
	for i := range 40 {
		mustInsert(t, s, delivery(sent(fmt.Sprint("x", i), "push", "", fmt.Sprint("invented-", i))))
	}
	if n := count(t, pool, `select count(*) from receipts`); n != 17 {
		t.Errorf("%d receipts, want the first and 16 replays", n)
	}
}

// The same rule applies to an event that its source ignored before and accepts now: one of the two events is marked.
func TestInsert_UnsignedID_TakenOver_OtherTopic_Relayed(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	ignored := sent("w1", "orders/paid", "", "")
	ignored.Status, ignored.Reason = receipt.Ignored, `type_ignored: "orders/paid"`
	mustInsert(t, s, delivery(ignored))
	mustInsert(t, s, delivery(sent("w2", "orders/create", "", "")))
	out := mustInsert(t, s, delivery(sent("w1", "orders/paid", "", "")))[0]
	if out.Duplicate || out.Status != receipt.Received {
		t.Fatalf("got %+v, want it received", out)
	}
	if n := count(t, pool, `select count(*) from receipts where status = 'received' and reason = '' and (replayed = (event_id = 'w2'))`); n != 2 {
		t.Errorf("%d receipts, want both received and the second marked", n)
	}
}

// The payload of an event may expire. A replay that arrives when the event is old therefore stores its own payload, and
// so does an event that takes over an ignored receipt with the same bytes as an old event.
func TestInsert_UnsignedID_SameBytesAsAnOldEvent_StoresItsOwn(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		s, pool := setup(t)
		first := mustInsert(t, s, delivery(unsigned("first", "order 1")))[0]
		if taken {
			ignored := unsigned("again", "order 1")
			ignored.Status, ignored.Reason = receipt.Ignored, receipt.TypeIgnored
			if _, err := pool.Exec(t.Context(), `update receipts set body_hash = '\x01' where id = $1`, first.ReceiptID); err != nil {
				t.Fatal(err)
			}
			mustInsert(t, s, delivery(ignored))
			if _, err := pool.Exec(t.Context(), `update receipts set body_hash = sha256('order 1')`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pool.Exec(t.Context(), `update receipts set received_at = now() - interval '8 days' where id = $1`, first.ReceiptID); err != nil {
			t.Fatal(err)
		}
		replay := mustInsert(t, s, delivery(unsigned("again", "order 1")))[0]
		if replay.Duplicate || replay.Status != receipt.NeedsReview {
			t.Fatalf("taken over %t: the replay is %+v", taken, replay)
		}
		if n := count(t, pool, `select count(*) from receipt_bodies where body = 'order 1'`); n != 2 {
			t.Errorf("taken over %t: %d payloads are stored, want one of each event", taken, n)
		}
	}
}
