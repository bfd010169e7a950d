package run_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A worker is suspended for longer than the timeout of its workflow task. It completes the task after another worker
// has taken the task over. The rows of the other worker stay, in every combination of parking and finishing. The
// later task overwrites the rows of the earlier task.
func TestStatus_OfTheLaterWorkflowTask_Stands(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) // a finer resolution than the database stores
	statuses := []receipt.Status{receipt.NeedsReview, receipt.Dead, receipt.Processing, receipt.Retrying, receipt.Processed, receipt.Compensated}
	s := setup(t)
	write := func(id string, task time.Time, to receipt.Status) error {
		if to == receipt.Processed || to == receipt.Compensated {
			_, err := s.MarkFinished(t.Context(), run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w" + id, RunID: "r", StartedAt: began,
				Outcome: string(to), Status: to, AsOf: task})
			return err
		}
		return s.receipts.TransitionAsOf(t.Context(), task, id, to, string(to), string(to))
	}
	for _, earlier := range statuses {
		for _, later := range statuses {
			t.Run(string(earlier)+" "+string(later), func(t *testing.T) {
				id := s.insert(t, "evt_"+t.Name())
				for _, w := range []struct {
					task    time.Time
					to      receipt.Status
					outrun  bool
					becomes receipt.Status
				}{
					{began, earlier, false, earlier},
					{began.Add(time.Second), later, false, later},
					{began.Add(time.Second), later, false, later}, // a second call changes nothing
					{began, earlier, true, later},
					{time.Time{}, earlier, false, earlier}, // written by a version that did not store the task's time
					{began, later, true, earlier},
				} {
					if err := write(id, w.task, w.to); errors.Is(err, receipt.ErrOutrun) != w.outrun || !w.outrun && err != nil {
						t.Errorf("%s as of %s: %v", w.to, w.task, err)
					}
					if r := s.get(t, id); r.Status != w.becomes {
						t.Errorf("after %s as of %s the receipt is %s, want %s", w.to, w.task, r.Status, w.becomes)
					}
				}
			})
		}
	}
	// The earlier task also did not close a run that the later task had parked.
	id := s.insert(t, "evt_parked")
	start := run.Started{ReceiptID: id, WorkflowID: "w" + id, RunID: "r", StartedAt: began}
	if err := s.MarkStarted(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if err := write(id, began.Add(time.Second), receipt.NeedsReview); err != nil {
		t.Fatal(err)
	}
	if err := write(id, began, receipt.Processed); !errors.Is(err, receipt.ErrOutrun) {
		t.Errorf("finish: %v, want ErrOutrun", err)
	}
	if n := s.count(t, `select count(*) from runs where receipt_id = $1 and (closed_at is not null or outcome <> '')`, id); n != 0 {
		t.Error("the run is closed")
	}
}

// If both tasks write concurrently, the earlier task waits for the row and then sees the row of the later task.
func TestStatus_OfTheLaterWorkflowTask_CommittedMeanwhile_Stands(t *testing.T) {
	t.Parallel()
	s := setup(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, write := range map[string]func(id string) error{
		"finish": func(id string) error {
			_, err := s.MarkFinished(t.Context(), run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w", RunID: "r", StartedAt: began,
				Outcome: "processed", Status: receipt.Processed, AsOf: began})
			return err
		},
		"park": func(id string) error {
			return s.receipts.TransitionAsOf(t.Context(), began, id, receipt.Dead, "exhausted", "exhausted")
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := s.insert(t, "evt_"+name)
			err := schematest.Behind(t, s.pool, func() error { return write(id) },
				`update receipts set status = 'needs_review', fence = $2 where id = $1`, id, began.Add(time.Second))
			if !errors.Is(err, receipt.ErrOutrun) {
				t.Errorf("got %v, want ErrOutrun", err)
			}
			if r := s.get(t, id); r.Status != receipt.NeedsReview {
				t.Errorf("the receipt is %s, want needs_review", r.Status)
			}
			if n := s.count(t, `select count(*) from runs where receipt_id = $1`, id); n != 0 {
				t.Errorf("%d runs are recorded, want none", n)
			}
		})
	}
}
