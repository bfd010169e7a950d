package receipt_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// through returns a delivery of events to a source, all with the same status.
func through(source string, status receipt.Status, events ...receipt.New) receipt.Delivery {
	for i := range events {
		if events[i].Status = status; status != receipt.Received {
			events[i].Reason = `type_ignored: "invoice.paid"`
		}
	}
	d := delivery(events...)
	d.Source = source
	if status == receipt.Ignored {
		d.ReceivedAt = d.ReceivedAt.Add(-time.Hour)
	}
	return d
}

func TestInsert_NotWantedByOneSource_TakenOverByTheOneThatWantsIt(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	first := event("evt_1")
	first.Body = []byte("not wanted")
	id := mustInsert(t, s, through("main", receipt.Ignored, first))[0].ReceiptID
	if _, err := pool.Exec(t.Context(), `delete from receipt_bodies`); err != nil { // retention deletes old bodies
		t.Fatal(err)
	}
	if out := mustInsert(t, s, through("other", receipt.Ignored, event("evt_1")))[0]; !out.Duplicate || out.Status != receipt.Ignored {
		t.Errorf("wanted by no source: got %+v, want an ignored duplicate", out)
	}
	// The delivery also contains an event without a receipt, and an event that runs.
	running := mustInsert(t, s, through("main", receipt.Received, event("evt_3")))[0].ReceiptID
	out := mustInsert(t, s, through("relay", receipt.Received, event("evt_1"), event("evt_2"), event("evt_3")))
	if out[0].Duplicate || out[0].ReceiptID != id || out[0].Status != receipt.Received || out[0].EventID != "evt_1" {
		t.Errorf("wanted: got %+v, want %s received, and no duplicate", out[0], id)
	}
	if out[1].Duplicate || !out[2].Duplicate || out[2].ReceiptID != running {
		t.Errorf("beside it: got %+v", out[1:])
	}
	r := mustGet(t, s, id)
	if r.Status != receipt.Received || r.Reason != "" || r.Source != "relay" || time.Since(r.ReceivedAt) > time.Minute {
		t.Errorf("receipt %+v, want it received for relay, now", r)
	}
	if body, err := s.Body(t.Context(), id); err != nil || string(body.Bytes) != string(event("evt_1").Body) {
		t.Errorf("body %q, %v; want the body of the delivery to relay", body.Bytes, err)
	}
	if r := mustGet(t, s, running); r.Source != "main" {
		t.Errorf("an event that runs went over to %s", r.Source)
	}
	if again := mustInsert(t, s, through("relay", receipt.Received, event("evt_1")))[0]; !again.Duplicate {
		t.Errorf("again: got %+v, want a duplicate", again)
	}

	shown := show(t, pool, id)
	var sources []string
	for _, d := range shown.Deliveries {
		sources = append(sources, d.Source+" "+d.Outcome)
	}
	if len(sources) != 4 || sources[0] != "main ignored" || sources[1] != "other duplicate" || sources[2] != "relay new" {
		t.Errorf("deliveries %q, want each as it came", sources)
	}
	listed, err := timeline.List(t.Context(), pool, timeline.Filter{Source: "relay"})
	if err != nil || len(listed) != 2 || shown.Receipt.Source != "relay" {
		t.Errorf("listed for relay %+v (%v), shown for %s; want both events of relay", listed, err, shown.Receipt.Source)
	}
}

// The statement for the second source's delivery cannot see the first source's receipt, because both share a flush or
// because the row is locked.
func TestInsert_NotWantedAndWantedAtOnce_RunOnce(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	const events = 30
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := map[string]int{}
	for i := range events {
		id := "evt_" + string(rune('a'+i))
		for _, d := range []receipt.Delivery{
			through("main", receipt.Ignored, event(id)), through("relay", receipt.Received, event(id)), through("relay", receipt.Received, event(id)),
		} {
			wg.Go(func() {
				out, err := s.Insert(t.Context(), d)
				if err != nil {
					t.Error(err)
					return
				}
				if !out[0].Duplicate && out[0].Status == receipt.Received {
					mu.Lock()
					fresh[id]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if n := count(t, pool, `select count(*) from receipts where status = 'received'`); n != events || len(fresh) != events {
		t.Errorf("%d of %d events are to run, %d were handed over", n, events, len(fresh))
	}
	if n := count(t, pool, `select count(*) from deliveries`); n != 3*events {
		t.Errorf("%d deliveries are listed, want all %d", n, 3*events)
	}
	if n := count(t, pool, `select count(*) from receipts where source = 'relay'`); n != events {
		t.Errorf("%d receipts are relay's, want %d", n, events)
	}
	for id, n := range fresh {
		if n != 1 {
			t.Errorf("%s was handed over %d times", id, n)
		}
	}
}

// It is unknown whether the receipt is ignored, so the delivery must be repeated.
func TestInsert_IgnoredReceiptLocked_NotAcknowledged(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, through("main", receipt.Ignored, event("evt_1")))[0].ReceiptID
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select from receipts where id = $1 for update`, id); err != nil {
		t.Fatal(err)
	}
	short := receipt.NewStore(pool, receipt.Options{Timeout: 300 * time.Millisecond})
	defer short.Close()
	if out, err := short.Insert(t.Context(), through("relay", receipt.Received, event("evt_1"))); err == nil {
		t.Errorf("got %+v, want an error", out)
	}
}

// GitHub does not sign the event type, so an attacker with an ignored delivery could send it with a wanted type.
func TestInsert_NotWanted_SameBytesUnderAnotherType_StayIgnored(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	held := unsigned("guid", "bytes")
	held.Type = "issues.opened"
	id := mustInsert(t, s, through("main", receipt.Ignored, held))[0].ReceiptID
	held.Type = "push"
	if out := mustInsert(t, s, through("main", receipt.Received, held))[0]; !out.Duplicate || out.ReceiptID != id || out.Status != receipt.Ignored {
		t.Errorf("got %+v, want a duplicate of %s", out, id)
	}
}

// An event that a person has dismissed stays dismissed, even if a source wants its type later.
func TestInsert_Dismissed_NotTakenOver(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := mustInsert(t, s, through("main", receipt.Received, event("evt_1")))[0].ReceiptID
	for _, to := range []receipt.Status{receipt.NeedsReview, receipt.Ignored} {
		if err := s.Transition(t.Context(), id, to, "dismissed: ada has seen to it", ""); err != nil {
			t.Fatal(err)
		}
	}
	if out := mustInsert(t, s, through("relay", receipt.Received, event("evt_1")))[0]; !out.Duplicate || out.Status != receipt.Ignored {
		t.Errorf("got %+v, want a duplicate", out)
	}
}
