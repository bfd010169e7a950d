package dispatch_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

// If Temporal rejects the start of one receipt, pawl does not retry it forever: the receipt shows the reason, and
// other receipts are started.
func TestSweep_StartRefused_ParkedWithTheReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bad := b.insert(t)
	good := b.insert(t, func(e *receipt.New) { e.EventID = "evt_2" })
	b.temporal.set(func(tp *temporal) { tp.refuses = "stripe:evt_1" })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a refusal passed for success")
	}
	r, err := b.store.Get(t.Context(), bad.ReceiptID)
	if err != nil || r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, "start_refused: ") || !strings.Contains(r.LastError, "the input is too large") {
		t.Errorf("receipt %+v, %v; want it parked with the reason", r, err)
	}
	if st := b.status(t, good.ReceiptID); st != receipt.Processing {
		t.Errorf("the other one is %s, want processing", st)
	}
	b.temporal.set(func(tp *temporal) { tp.refuses = "" })
	// as `pawl events start` does
	if err := b.store.Transition(t.Context(), bad.ReceiptID, receipt.Received, "", ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.d.SweepOnce(t.Context()); err != nil || b.status(t, bad.ReceiptID) != receipt.Processing {
		t.Errorf("mended: %v, status %s; want it processing", err, b.status(t, bad.ReceiptID))
	}
}

// Several rejections in a row are caused by the namespace, not by the events: the other receipts wait, and start
// after the namespace is repaired.
func TestSweep_EveryStartRefused(t *testing.T) {
	t.Parallel()
	const events, parked = 40, 2
	b := setup(t)
	var log bytes.Buffer
	d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, Runs: b.starts, TaskQueue: "q", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		b.insert(t, id(fmt.Sprint("evt_", i)))
	}
	b.due(t)
	b.temporal.set(func(tp *temporal) { tp.refusesAll = true })
	for range 3 {
		if _, _, err := d.SweepOnce(t.Context()); err == nil {
			t.Error("a refusal passed for success")
		}
	}
	open, err := b.store.Waiting(t.Context(), nil)
	counts := map[receipt.Status]receipt.Waiting{}
	for _, w := range open {
		counts[w.Status] = w
	}
	if err != nil || counts[receipt.NeedsReview].Count != parked || counts[receipt.Received].Count != events-parked {
		t.Errorf("open: %v, %v; want %d parked", counts, err, parked)
	}
	if n := strings.Count(log.String(), "Temporal accepts no starts"); n != 1 {
		t.Errorf("the log reports waiting receipts %d times:\n%s", n, log.String())
	}
	b.temporal.set(func(tp *temporal) { tp.refusesAll = false })
	for range 2 { // the first sweep detects the problem
		if _, _, err := d.SweepOnce(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := len(b.temporal.runs); n != events-parked {
		t.Errorf("mended: %d runs, want %d", n, events-parked)
	}
}
