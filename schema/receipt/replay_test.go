package receipt_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// Whoever holds one delivery whose ID nothing signs can send it under any number of IDs. It is one suspected replay, and
// its bytes are kept once; so it is where the delivery is ignored, or cannot be run.
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
						e.Reason = `type_not_wanted: "invoice.paid"`
					}
					return delivery(e)
				}
				first := mustInsert(t, s, captured("guid"))[0]
				size := count(t, pool, `select pg_total_relation_size('receipt_bodies')`)
				var wg sync.WaitGroup
				for i := range replays {
					replay := func() {
						out, err := s.Insert(t.Context(), captured(fmt.Sprint("replay-", i)))
						for begin := time.Now(); err != nil && time.Since(begin) < time.Minute; { // a lock took long: it comes again
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

// A provider may send one body as several events, with the type beside it. Each type is kept for a person, up to a bound:
// anybody can invent types.
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

// Duplicates are counted; the list of deliveries ends.
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
	mustInsert(t, s, delivery(event("evt_1"), event("evt_1"))) // the second is counted after the flush
	if n := count(t, pool, `select sum(duplicates) from receipts`); n != 2005 {
		t.Errorf("%d duplicates are counted, want 2005", n)
	}
	if n := count(t, pool, `select count(*) from redeliveries`); n != 0 {
		t.Errorf("%d more deliveries are listed, want none", n)
	}
}
