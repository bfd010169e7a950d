package receipt_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
)

// A receipt of the first source runs an event. The destinations of a second source receive the event through a second
// receipt, which is only relayed.
func TestInsert_WantedByASecondSourceThatRelays_ReceiptOfItsOwn(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, through("main", receipt.Received, event("evt_1")))
	mustInsert(t, s, through("main", receipt.Ignored, event("evt_2")))
	count := func() (n int) {
		if err := pool.QueryRow(t.Context(), `select count(*) from receipts`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The event gets no second receipt from a source without destinations, from the same source, or from a source
	// that does not want the event.
	again, other, unwanted := through("main", receipt.Received, event("evt_1")), through("crm", receipt.Received, event("evt_1")), through("crm", receipt.Ignored, event("evt_1"))
	again.Relays, unwanted.Relays = true, true
	for _, d := range []receipt.Delivery{again, other, unwanted} {
		if mustInsert(t, s, d); count() != 2 {
			t.Fatalf("%d receipts after a delivery to %s, want no more than 2", count(), d.Source)
		}
	}
	relayed := func() receipt.Delivery {
		d := through("crm", receipt.Received, event("evt_1"), event("evt_2"), event("evt_3"))
		d.Relays = true
		return d
	}
	out := mustInsert(t, s, relayed())
	if !out[0].Duplicate || out[1].Duplicate || out[2].Duplicate {
		t.Errorf("got %+v, want a duplicate, a takeover and a new one", out)
	}
	mustInsert(t, s, relayed()) // the provider retries
	if count() != 4 {
		t.Errorf("%d receipts, want one more for crm, and evt_3", count())
	}
	due, err := s.Due(t.Context(), 10)
	if err != nil || len(due) != 1 || due[0].EventID != "evt_1~crm" || due[0].RelayOf != "evt_1" {
		t.Fatalf("due at once: %+v, %v; want evt_1~crm", due, err)
	}
	held := mustGet(t, s, due[0].ReceiptID)
	if held.Source != "crm" || held.RelayOf != "evt_1" || held.Status != receipt.Received {
		t.Errorf("receipt %+v", held)
	}
	if body, err := s.Body(t.Context(), held.ID); err != nil || string(body.Bytes) != string(event("evt_1").Body) {
		t.Errorf("body %q, %v", body.Bytes, err)
	}
}
