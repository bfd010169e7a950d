package receipt_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// unsigned returns an event with an ID that the signature does not cover.
func unsigned(id, body string) receipt.New {
	e := event(id)
	e.Identity, e.Body = receipt.ByBytes, []byte(body)
	return e
}

// Bodies with the same signed text but another spelling count as the same bytes, under the same ID and under another
// ID.
func TestInsert_UnsignedID_OtherBytesOfOneSignature(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	spelled := func(id, body string) receipt.New {
		e := unsigned(id, body)
		e.Signed = []byte("a1b2")
		return e
	}
	if first := mustInsert(t, s, delivery(spelled("token-1", "a=1&b=2")))[0]; first.Status != receipt.Received {
		t.Errorf("got %+v, want it received", first)
	}
	if again := mustInsert(t, s, delivery(spelled("token-1", "b=2&a=1")))[0]; !again.Duplicate || again.EventID != "token-1" {
		t.Errorf("under its own ID: got %+v, want a duplicate", again)
	}
	replayed := mustInsert(t, s, delivery(spelled("token-2", "b=2&a=%31")))[0]
	if replayed.Status != receipt.NeedsReview || replayed.Reason != "suspected_replay: same bytes as token-1" {
		t.Errorf("under another: got %+v, want it parked as a suspected replay of token-1", replayed)
	}
	if plain := mustInsert(t, s, delivery(unsigned("token-3", "a=1&b=2")))[0]; plain.Status != receipt.Received {
		t.Errorf("the first one's bytes, signed as such: got %+v, want it received", plain)
	}
}

// Other bytes under an unsigned ID are another event, and its retries are duplicates of that event.
func TestInsert_UnsignedID_OtherBytes_AnotherEvent(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"guid-1", strings.Repeat("g", 200)} {
		s, pool := setup(t)
		first := mustInsert(t, s, delivery(unsigned(id, "a")))[0]
		second := mustInsert(t, s, delivery(unsigned(id, "b")))[0]
		if second.Duplicate || second.Status != receipt.Received || second.ReceiptID == first.ReceiptID || len(second.EventID) > 200 ||
			!strings.HasSuffix(second.EventID, "~3e23e8160039594a") {
			t.Errorf("other bytes: got %+v, want an event of their own", second)
		}
		if r := mustGet(t, s, second.ReceiptID); r.EventID != second.EventID {
			t.Errorf("stored as %s, returned %s", r.EventID, second.EventID)
		}
		if body, err := s.Body(t.Context(), second.ReceiptID); err != nil || string(body.Bytes) != "b" {
			t.Errorf("body %q, %v; want its own", body.Bytes, err)
		}
		for body, want := range map[string]receipt.Outcome{"a": first, "b": second} {
			if got := mustInsert(t, s, delivery(unsigned(id, body)))[0]; !got.Duplicate || got.ReceiptID != want.ReceiptID || got.EventID != want.EventID {
				t.Errorf("%s again: got %+v, want a duplicate of %+v", body, got, want)
			}
		}
		if n := count(t, pool, `select count(*) from receipts where duplicates = 1`); n != 2 {
			t.Errorf("%d receipts with one duplicate, want both", n)
		}
		// The bytes are also compared with receipts under other IDs.
		if got := mustInsert(t, s, delivery(unsigned("guid-2", "b")))[0]; got.Status != receipt.NeedsReview {
			t.Errorf("the same bytes under another ID: got %+v, want a suspected replay", got)
		}
		if got := mustInsert(t, s, delivery(unsigned("guid-2", "a")))[0]; got.Duplicate || got.Status != receipt.NeedsReview {
			t.Errorf("held bytes under an ID that has others: got %+v, want a suspected replay", got)
		}
	}
}

// No bytes are lost even if an attacker uses the longer ID first.
func TestInsert_UnsignedID_OwnIDTaken_AnotherEvent(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, delivery(unsigned("guid", "a"), unsigned("guid~3e23e8160039594a", "squatter")))
	for _, duplicate := range []bool{false, true} {
		if got := mustInsert(t, s, delivery(unsigned("guid", "b")))[0]; got.Duplicate != duplicate || got.EventID != "guid~3e23e8160039594a~3e23e8160039594a" {
			t.Errorf("got %+v, want an event of its own, duplicate %t", got, duplicate)
		}
	}
	if n := count(t, pool, `select count(*) from receipts`); n != 3 {
		t.Errorf("receipts: got %d, want 3", n)
	}
}

// The events arrive in one delivery, in consecutive deliveries, and with a status that does not run.
func TestInsert_UnsignedID_OtherBytes_InOneDelivery(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	ignored := unsigned("guid", "c")
	ignored.Status, ignored.Reason = receipt.Ignored, "type_ignored"
	out := mustInsert(t, s, delivery(unsigned("guid", "a"), unsigned("guid", "b"), unsigned("guid", "a"), ignored, event("signed")))
	for i, duplicate := range []bool{false, false, true, false, false} {
		if out[i].Duplicate != duplicate {
			t.Errorf("event %d: got %+v, want duplicate %t", i, out[i], duplicate)
		}
	}
	if n := count(t, pool, `select count(distinct body_hash) from receipts`); n != 4 {
		t.Errorf("different bytes: got %d, want all 4", n)
	}
}

// If the bytes contain the time of sending, they do not identify the event.
func TestInsert_ByIDOrBytes_OtherBytes_Duplicate(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	for i, body := range []string{"at 1", "at 2"} {
		e := unsigned("guid", body)
		e.Identity = receipt.ByIDOrBytes
		if got := mustInsert(t, s, delivery(e))[0]; got.Duplicate != (i > 0) {
			t.Errorf("attempt %d: got %+v", i+1, got)
		}
	}
	if n := count(t, pool, `select duplicates from receipts`); n != 1 {
		t.Errorf("duplicates: got %d, want 1", n)
	}
}

// 200 deliveries of five events with the same unsigned ID arrive at two stores. The result is five receipts and 195
// duplicates, and each delivery gets the receipt with its bytes.
func TestInsert_UnsignedID_OtherBytes_Concurrent(t *testing.T) {
	t.Parallel()
	a, pool := setup(t)
	b := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	defer b.Close()
	const events = 5
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := map[string]map[string]int{}
	fresh := 0
	for i := range 200 {
		s, body := []*receipt.Store{a, b}[i%2], fmt.Sprint("bytes ", i%events)
		wg.Go(func() {
			out, err := s.Insert(t.Context(), delivery(unsigned("guid", body)))
			if err != nil || out[0].Uncounted != nil {
				t.Errorf("delivery %d: %v %+v", i, err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if told[body] == nil {
				told[body] = map[string]int{}
			}
			told[body][out[0].ReceiptID]++
			if !out[0].Duplicate {
				fresh++
			}
		})
	}
	wg.Wait()
	for body, ids := range told {
		if len(ids) != 1 {
			t.Errorf("%s: returned receipts %v, want one", body, ids)
		}
	}
	if fresh != events {
		t.Errorf("new: got %d, want %d", fresh, events)
	}
	if n := count(t, pool, `select count(*) from receipts where status = 'received'`); n != events {
		t.Errorf("receipts that will run: got %d, want %d", n, events)
	}
	if n := count(t, pool, `select sum(duplicates) from receipts`); n != 200-events {
		t.Errorf("duplicates: got %d, want %d", n, 200-events)
	}
	if n := count(t, pool, `select count(*) from deliveries where outcome = 'duplicate'`); n != 200-events {
		t.Errorf("duplicate deliveries: got %d, want %d", n, 200-events)
	}
}

// A duplicate of a locked receipt cannot be counted at once, but its bytes can be compared.
func TestInsert_UnsignedID_LockedReceipt_OtherBytes_AnotherEvent(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, delivery(unsigned("guid", "a")))
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	if _, err := lock.Exec(t.Context(), `select from receipts for update`); err != nil {
		t.Fatal(err)
	}
	if got := mustInsert(t, s, delivery(unsigned("guid", "b")))[0]; got.Duplicate || got.Status != receipt.Received {
		t.Errorf("got %+v, want an event of its own", got)
	}
}

// If the same bytes arrive under two IDs, only one event runs, even if they arrive together and the first ID has a
// receipt with other bytes.
func TestInsert_UnsignedID_OtherBytesTwice_OneRuns(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	mustInsert(t, s, delivery(unsigned("guid-1", "a")))
	out := mustInsert(t, s, delivery(unsigned("guid-1", "b"), unsigned("guid-2", "b")))
	if out[0].Status != receipt.Received || out[1].Status != receipt.NeedsReview {
		t.Errorf("got %+v, want the first received and the second parked", out)
	}
}

// A duplicate that cannot be counted is not counted for another event with the same ID.
func TestInsert_UnsignedID_OtherBytesLocked_NotCountedElsewhere(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	s := receipt.NewStore(pool, receipt.Options{Timeout: 500 * time.Millisecond})
	t.Cleanup(s.Close)
	first := mustInsert(t, s, delivery(unsigned("guid", "a")))[0]
	other := mustInsert(t, s, delivery(unsigned("guid", "b")))[0]
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	if _, err := lock.Exec(t.Context(), `select from receipts where id = $1 for update`, other.ReceiptID); err != nil {
		t.Fatal(err)
	}
	out, err := s.Insert(t.Context(), delivery(unsigned("guid", "b")))
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0]; !got.Duplicate || got.EventID != other.EventID || got.Uncounted == nil || got.ReceiptID != other.ReceiptID {
		t.Errorf("got %+v, want a duplicate of %s that is not counted", got, other.EventID)
	}
	if r := mustGet(t, s, first.ReceiptID); r.Duplicates != 0 {
		t.Errorf("%d duplicates of %s are counted, want none", r.Duplicates, r.EventID)
	}
}

// The receipt with the ID is locked, but the event can still be compared with it, and is not lost.
func TestInsert_Collision_LockedReceipt_Parked(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	s := receipt.NewStore(pool, receipt.Options{Timeout: 500 * time.Millisecond})
	t.Cleanup(s.Close)
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	if _, err := lock.Exec(t.Context(), `select from receipts where id = $1 for update`, id); err != nil {
		t.Fatal(err)
	}
	other := event("evt_1")
	other.Object, other.Body = "in_2", []byte("of in_2")
	out := mustInsert(t, s, delivery(other))[0]
	if out.Duplicate || out.Status != receipt.NeedsReview || !strings.HasPrefix(out.Reason, receipt.IDCollision) || out.ReceiptID == id {
		t.Errorf("got %+v, want it parked as a collision", out)
	}
	if body, err := s.Body(t.Context(), out.ReceiptID); err != nil || string(body.Bytes) != "of in_2" {
		t.Errorf("body %q, %v; want its own", body.Bytes, err)
	}
}
