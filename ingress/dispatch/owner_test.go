package dispatch_test

import (
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// forgotten returns a receipt that started a run and was deleted, as if the database was restored from an older copy.
func (b *bench) forgotten(t *testing.T) receipt.Pending {
	t.Helper()
	p := b.insert(t)
	b.sweep(t)
	if _, err := b.pool.Exec(t.Context(), `delete from runs; delete from receipt_bodies; delete from receipts`); err != nil {
		t.Fatal(err)
	}
	return p
}

// sweep starts every due receipt. A receipt that cannot be started has a status and the reason.
func (b *bench) sweep(t *testing.T) {
	t.Helper()
	b.due(t)
	_, _, _ = b.d.SweepOnce(t.Context())
}

func TestSweep_RunIsAnotherReceipts_ParkedThenRunAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.forgotten(t)
	p := b.insert(t)
	b.sweep(t)
	b.silent(t)
	if n := b.searchOnce(t); n != 1 {
		t.Errorf("%d mended, want 1", n)
	}
	if r := b.get(t, p.ReceiptID); r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, receipt.ForeignRun) ||
		!strings.Contains(r.Reason, "stripe:evt_1") || !strings.Contains(r.Reason, old.ReceiptID) {
		t.Fatalf("receipt %s: %s; want it parked with the run and its receipt", r.Status, r.Reason)
	}

	// A person starts the event again.
	anew := workflows.EventInput{Ref: event.Ref{ReceiptID: p.ReceiptID, Provider: "stripe", EventID: "evt_1"}}.AnewID()
	if err := b.runAnew(t, p, anew); err != nil {
		t.Fatal(err)
	}
	b.sweep(t)
	s, ok := b.temporal.get(anew)
	if r := b.get(t, p.ReceiptID); !ok || s.in.ReceiptID != p.ReceiptID || r.Status != receipt.Processing || r.WorkflowID != anew {
		t.Errorf("started %+v, receipt %+v; want its own run under %s", s, r, anew)
	}
	if err := b.runAnew(t, p, anew); err == nil {
		t.Error("a receipt with a run is started again")
	}
	b.silent(t)
	if n := b.searchOnce(t); n != 0 {
		t.Errorf("%d mended, want the new run left alone", n)
	}
}

// If a run was started twice because the first response was lost, it belongs to the receipt.
func TestSweep_RunIsItsOwn_NotParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t)
	b.temporal.set(func(tp *temporal) { tp.lost = 1 })
	b.sweep(t)
	b.sweep(t)
	if r := b.get(t, p.ReceiptID); r.Status != receipt.Processing || r.WorkflowID != "stripe:evt_1" {
		t.Errorf("receipt %s under %q, want it processing", r.Status, r.WorkflowID)
	}
}

// An older version of pawl did not check the owner of a run, and recorded the run of another receipt.
func TestSearchOnce_RunIsAnotherReceipts_Parked(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]enumspb.WorkflowExecutionStatus{"waiting": 0, "complete": enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.forgotten(t)
			p := b.insert(t)
			if err := b.starts.MarkStarted(t.Context(), run.Started{ReceiptID: p.ReceiptID, WorkflowID: "stripe:evt_1", RunID: "run-1"}); err != nil {
				t.Fatal(err)
			}
			b.temporal.set(func(tp *temporal) { tp.ended = ended })
			b.silent(t)
			if n := b.searchOnce(t); n != 1 {
				t.Errorf("%d mended, want 1", n)
			}
			if r := b.get(t, p.ReceiptID); r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, receipt.ForeignRun) {
				t.Errorf("receipt %s: %s; want it parked", r.Status, r.Reason)
			}
		})
	}
}

// An event ID that exists in both modes has one workflow ID, so the second event is parked.
func TestSearchOnce_SameIDInBothModes_SecondParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live := b.insert(t)
	b.sweep(t)
	test := b.insert(t, func(e *receipt.New) { e.Mode = "test" })
	b.sweep(t)
	b.silent(t)
	if n := b.searchOnce(t); n != 1 {
		t.Errorf("%d mended, want 1", n)
	}
	if r := b.get(t, test.ReceiptID); r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, receipt.ForeignRun) {
		t.Errorf("the second is %s: %s; want it parked", r.Status, r.Reason)
	}
	if r := b.get(t, live.ReceiptID); r.Status != receipt.Processing {
		t.Errorf("the first is %s: %s; want it left alone", r.Status, r.Reason)
	}
}

// A client with write access to Temporal can start any workflow under an event's workflow ID. Only a run with one of
// pawl's workflow types and with the receipt's ID belongs to the event. If another run has the workflow ID, the
// receipt shows this and does not wait forever.
func TestSearchOnce_RunIsNotPawls_Parked(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]func(p receipt.Pending) started{
		"another type":                     func(receipt.Pending) started { return started{flow: "Sleeper"} },
		"another type with the receipt":    func(p receipt.Pending) started { return started{flow: "Sleeper", in: workflows.EventInput{Ref: p.Ref}} },
		"a type of ours without a receipt": func(receipt.Pending) started { return started{flow: "InvoicePaid"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.insert(t)
			b.temporal.set(func(tp *temporal) { tp.runs["stripe:evt_1"] = foreign(p) })
			b.sweep(t)
			b.silent(t)
			if n := b.searchOnce(t); n != 1 {
				t.Errorf("%d mended, want 1", n)
			}
			r := b.get(t, p.ReceiptID)
			if r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, receipt.ForeignRun) {
				t.Fatalf("receipt %s: %s; want it parked", r.Status, r.Reason)
			}
			anew := workflows.EventInput{Ref: p.Ref}.AnewID()
			if err := b.runAnew(t, p, anew); err != nil {
				t.Fatal(err)
			}
			b.sweep(t)
			if s, ok := b.temporal.get(anew); !ok || s.in.ReceiptID != p.ReceiptID {
				t.Errorf("started %+v, want its own run", s)
			}
		})
	}
}

func (b *bench) runAnew(t *testing.T, p receipt.Pending, workflowID string) error {
	t.Helper()
	r := b.get(t, p.ReceiptID)
	return receipt.RunAnewIn(t.Context(), b.pool, p.ReceiptID, receipt.NeedsReview, r.Reason, workflowID)
}
