package dispatch_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

// One event is offered 200 times concurrently and found by the sweeps of two dispatchers, but has one run.
func TestDispatch_Storm_OneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t)
	other := b.dispatcher(t)
	p := b.insert(t)
	b.due(t)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { b.d.Offer([]receipt.Pending{p}) })
	}
	wg.Go(func() {
		if _, _, err := other.SweepOnce(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	eventually(t, "all starts tried", func() bool {
		b.temporal.mu.Lock()
		defer b.temporal.mu.Unlock()
		return b.temporal.calls >= 200
	})
	if n := len(b.temporal.runs); n != 1 {
		t.Errorf("runs: got %d, want 1", n)
	}
}

// Temporal is stopped while 100 events arrive. All events are stored, their starts are retried with a delay, and all
// events run after Temporal has recovered.
func TestDispatch_TemporalDown_ReceiptsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.temporal.set(func(tp *temporal) { tp.down = true })
	b.run(t)
	var all []receipt.Pending
	for i := range 100 {
		p := b.insert(t, id(fmt.Sprint("evt_", i)))
		all = append(all, p)
		b.d.Offer([]receipt.Pending{p})
	}
	b.due(t)
	var before int
	b.temporal.set(func(tp *temporal) { before = tp.calls })
	if before > 40 {
		t.Errorf("%d starts tried while Temporal was down, want few: the first of each worker, then one at a time", before)
	}
	backlog, err := b.store.Backlog(t.Context())
	if err != nil || backlog.Count != 100 {
		t.Errorf("backlog %+v, %v; want all 100", backlog, err)
	}
	b.temporal.set(func(tp *temporal) { tp.down = false })
	back := time.Now()
	eventually(t, "all are processing", func() bool {
		b, err := b.store.Backlog(t.Context())
		return err == nil && b.Count == 0
	})
	t.Logf("100 receipts started %s after Temporal came back", time.Since(back))
	for _, p := range all {
		if _, ok := b.temporal.get("stripe:" + p.EventID); !ok {
			t.Errorf("%s never ran", p.EventID)
		}
	}
	if n := len(b.temporal.runs); n != 100 {
		t.Errorf("runs: got %d, want 100", n)
	}
	p := b.insert(t, id("afterwards"))
	b.d.Offer([]receipt.Pending{p})
	eventually(t, "the way in memory is open again", func() bool { return b.status(t, p.ReceiptID) == receipt.Processing })
}

func TestDispatch_NoFlowOfItsOwn_Relayed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t, func(e *receipt.New) { e.Type = "moon.risen" })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, ok := b.temporal.get("stripe:" + p.EventID); !ok || s.flow != "Relay" || s.in.ReceiptID != p.ReceiptID {
		t.Errorf("started %+v, want Relay", s)
	}
}

// A person can start an ignored event later.
func TestDispatch_IgnoredThenWanted_Started(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t, func(e *receipt.New) { e.Status, e.Reason = receipt.Ignored, "type_ignored" })
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
		t.Fatalf("while ignored: %d, %v; want 0", found, err)
	}
	if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.Received, "", ""); err != nil {
		t.Fatal(err)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("when wanted: %d, %v; want 1", found, err)
	}
	if _, ok := b.temporal.get("stripe:evt_1"); !ok {
		t.Error("it never ran")
	}
}

func TestNew_ReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := dispatch.New(dispatch.Config{})
	if want := "dispatch: no Temporal client\nno receipt store\nno task queue"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
