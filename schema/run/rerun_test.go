package run_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// While a replay waits for its start, the start of the previous run is recorded late. The request stays until its own
// run is recorded.
func TestAskRerun_LateMarkOfTheRunBefore_WishStands(t *testing.T) {
	t.Parallel()
	s := setup(t)
	pool := s.pool
	id := s.insert(t, "evt_1")
	first := run.Started{ReceiptID: id, WorkflowID: "stripe:evt_1", RunID: "run-1", StartedAt: time.Now()}
	if _, err := s.MarkFinished(t.Context(), run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "stripe:evt_1", RunID: "run-1", StartedAt: first.StartedAt, Outcome: "processed", Status: receipt.Processed}); err != nil {
		t.Fatal(err)
	}
	wish := receipt.Rerun{Request: "r1", Actor: "ada", Reason: "again", Previous: "run-1"}
	if err := receipt.AskRerun(t.Context(), pool, id, "stripe:evt_1", receipt.Processed, "", wish); err != nil {
		t.Fatal(err)
	}
	if err := receipt.AskRerun(t.Context(), pool, id, "stripe:evt_1", receipt.Processed, "", wish); !errors.Is(err, receipt.ErrMoved) {
		t.Errorf("asked twice: %v, want ErrMoved", err)
	}
	late := first
	late.Kind = run.Replay // another replay was requested at once
	for _, mark := range []run.Started{first, late} {
		if err := s.MarkStarted(t.Context(), mark); err != nil {
			t.Fatal(err)
		}
	}
	due, err := s.receipts.Due(t.Context(), 10)
	if err != nil || len(due) != 1 || due[0].Rerun == nil || *due[0].Rerun != wish {
		t.Fatalf("due %+v (%v), want the wish", due, err)
	}
	own := run.Started{ReceiptID: id, WorkflowID: "stripe:evt_1", RunID: "run-2", StartedAt: time.Now(), Kind: run.Replay, RequestedBy: "ada", Reason: "again", PreviousRunID: "run-1"}
	if err := s.MarkStarted(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if r := s.get(t, id); r.Status != receipt.Processing || s.count(t, `select count(*) from receipts where rerun is null`) != 1 {
		t.Errorf("after its own start: %s", r.Status)
	}
	if runs := s.runs(t, id); len(runs) != 2 || runs[1].Kind != string(run.Replay) || runs[1].RequestedBy != "ada" || runs[1].Reason != "again" || runs[1].PreviousRunID != "run-1" {
		t.Errorf("runs %+v", runs)
	}
}
