package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

// If a process crashes after the commit, the receipt is in no queue, and the sweep starts it.
func TestSweep_Missed_Started(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
		t.Fatalf("at once: %d, %v; the hand-over goes first", found, err)
	}
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("when due: %d, %v; want 1", found, err)
	}
	if st := b.status(t, p.ReceiptID); st != receipt.Processing {
		t.Errorf("status %s, want processing", st)
	}
}

// If a process crashes between the start and its record, Temporal rejects the second start as a duplicate, which
// counts as success.
func TestSweep_StartedButNotMarked_Once(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t)
	b.temporal.set(func(tp *temporal) { tp.lost = 1 })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a start with a lost reply counted as success")
	}
	if st := b.status(t, p.ReceiptID); st != receipt.Received {
		t.Fatalf("status %s, want received, because its start is not confirmed", st)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("second sweep: %d, %v; want the receipt at once, not after its lease", found, err)
	}
	runs := b.runs(t, p.ReceiptID)
	if len(runs) != 1 || runs[0].RunID != "run-1" || b.status(t, p.ReceiptID) != receipt.Processing {
		t.Errorf("runs %+v; want the first one's ID", runs)
	}
	if b.temporal.asked != 0 {
		t.Errorf("checked the owner %d times; want 0, because this process has started it", b.temporal.asked)
	}
}

// A namespace that was created again lacks pawl's search attributes. The missing attributes are not the fault of the
// event.
func TestSweep_SearchAttributesAreGone_RegisteredAndReceiptsWait(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"without an alias": serviceerror.NewInvalidArgument("Namespace pawl has no mapping defined for search attribute PawlReceipt"),
		"unknown":          serviceerror.NewInvalidArgument("search attribute PawlType is not defined"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			prepared := 0
			d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, Runs: b.starts, TaskQueue: "q",
				Prepare: func(context.Context) error { prepared++; return nil }})
			if err != nil {
				t.Fatal(err)
			}
			p := b.insert(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_1", failure })
			b.due(t)
			_, _, err = d.SweepOnce(t.Context())
			if st := b.status(t, p.ReceiptID); err == nil || prepared != 1 || st != receipt.Received {
				t.Fatalf("%v, prepared %d times, receipt %s; want it to wait", err, prepared, st)
			}
			b.temporal.set(func(tp *temporal) { tp.fails = "" })
			if _, _, err := d.SweepOnce(t.Context()); err != nil || b.status(t, p.ReceiptID) != receipt.Processing {
				t.Errorf("%v, receipt %s; want it started", err, b.status(t, p.ReceiptID))
			}
		})
	}
}

// If one start fails with any error, it is retried later and does not delay other starts.
func TestSweep_OneStartFails_OthersGoOn(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"of the client":   serviceerror.NewInternal("header key contains value with non-printable ASCII characters"),
		"of the server":   errors.New("unknown"),
		"of its database": serviceerror.NewDataLoss("corrupt"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_0", failure })
			var all []receipt.Pending
			for i := range 40 {
				all = append(all, b.insert(t, id(fmt.Sprint("evt_", i))))
			}
			b.due(t)
			if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
				t.Error("a failure passed for success")
			}
			for _, p := range all[1:] {
				if st := b.status(t, p.ReceiptID); st != receipt.Processing {
					t.Errorf("%s is %s, want processing", p.EventID, st)
				}
			}
			if st := b.status(t, all[0].ReceiptID); st != receipt.Received {
				t.Errorf("the failed one is %s, want received", st)
			}
			if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
				t.Errorf("at once: found %d, %v; want it to wait for its lease", found, err)
			}
			b.temporal.set(func(tp *temporal) { tp.fails = "" })
			b.due(t)
			if _, _, err := b.d.SweepOnce(t.Context()); err != nil || b.status(t, all[0].ReceiptID) != receipt.Processing {
				t.Errorf("afterwards: %v, %s; want it processing", err, b.status(t, all[0].ReceiptID))
			}
		})
	}
}

// If a part of Temporal hangs, its starts wait until their leases end, and all other starts succeed, including starts
// of offered events.
func TestSweep_SomeStartsHang_OthersGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hangs := func(id string) bool { return strings.HasPrefix(id, "stripe:hangs_") }
	b.temporal.set(func(tp *temporal) { tp.hangs = hangs })
	var hung, well []receipt.Pending
	for i := range 4 {
		hung = append(hung, b.insert(t, id(fmt.Sprint("hangs_", i))))
	}
	for i := range 60 {
		well = append(well, b.insert(t, id(fmt.Sprint("evt_", i))))
	}
	b.due(t)
	var begin time.Time
	if err := b.pool.QueryRow(t.Context(), `select now()`).Scan(&begin); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a start without an answer passed for success")
	}
	for _, p := range well {
		if st := b.status(t, p.ReceiptID); st != receipt.Processing {
			t.Errorf("%s is %s, want processing", p.EventID, st)
		}
	}
	// If the sweep took longer than a lease, a second sweep would find the receipts again, so the test reads the
	// leases instead.
	var waiting int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from receipts where status = 'received' and dispatch_at >= $1::timestamptz + $2::interval`,
		begin, receipt.Lease).Scan(&waiting); err != nil || waiting != len(hung) {
		t.Errorf("%d hanging starts wait for their lease, %v; want %d", waiting, err, len(hung))
	}
	b.due(t)
	b.d.Offer(hung[:1])
	b.run(t)
	p := b.insert(t, id("offered"))
	b.d.Offer([]receipt.Pending{p})
	eventually(t, "what is offered is started", func() bool { return b.status(t, p.ReceiptID) == receipt.Processing })
}

// If Temporal does not respond at all, a sweep ends soon, and one start at a time tests whether Temporal has
// recovered.
func TestSweep_EveryStartHangs_GivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var tried atomic.Int64
	b.temporal.set(func(tp *temporal) { tp.hangs = func(string) bool { tried.Add(1); return true } })
	for i := range 100 {
		b.insert(t, id(fmt.Sprint("evt_", i)))
	}
	b.due(t)
	begun := time.Now()
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("starts without an answer passed for success")
	}
	if took := time.Since(begun); took > 15*time.Second { // each hanging start takes three seconds
		t.Errorf("the sweep took %s", took)
	}
	if n := tried.Swap(0); n > 2*16 {
		t.Errorf("%d starts were tried, want two for each worker at most", n)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err == nil || tried.Load() != 1 {
		t.Errorf("then: found %d, %v, %d tried; want one", found, err, tried.Load())
	}
	b.temporal.set(func(tp *temporal) { tp.hangs = nil })
	for range 2 {
		if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
			t.Errorf("when it is back: %v", err)
		}
	}
	if n, err := b.store.Backlog(t.Context()); err != nil || n.Count > 1 {
		t.Errorf("%d wait, %v; want only the first that hung to wait for a lease", n.Count, err)
	}
}

// If every start fails with the same error, Temporal is the cause: the receipts are due again at once, and no receipt
// is parked.
func TestSweep_TemporalUnable_ReleasedAtOnce(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"overloaded":   serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down"),
		"no namespace": serviceerror.NewNamespaceNotFound("pawl"),
		"not let in":   serviceerror.NewPermissionDenied("no", ""),
		"no route":     &net.OpError{Op: "dial", Err: errors.New("no route to host")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.insert(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_1", failure })
			b.due(t)
			for range 2 {
				if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err == nil {
					t.Errorf("found %d, %v; want it again, and the failure", found, err)
				}
			}
			if st := b.status(t, p.ReceiptID); st != receipt.Received {
				t.Errorf("status %s, want received", st)
			}
		})
	}
}
