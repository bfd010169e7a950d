package dispatch_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// rested returns a receipt whose run has ended.
func rested(t *testing.T, b *bench, change ...func(*receipt.New)) receipt.Pending {
	t.Helper()
	p := b.insert(t, change...)
	if _, err := b.starts.MarkFinished(t.Context(), run.Finished{
		Ref: p.Ref, WorkflowID: "stripe:" + p.EventID, RunID: "first", StartedAt: time.Now(), Outcome: "processed", Status: receipt.Processed,
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// await inserts a scheduled action of acme that a fact of p scheduled, due at a time in SQL.
func (b *bench) await(t *testing.T, p receipt.Pending, object, at string) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `
		insert into due (mode, owner, account, object, why, at, next_at, provider, event_id, receipt_id, occurred_at)
		values ('live', 'sub_1', 'acme', $1, 'dunning', $2, $2, 'stripe', $3, $4::uuid, now())`, object, at, p.EventID, p.ReceiptID); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) clock(t *testing.T) (found int) {
	t.Helper()
	found, err := b.d.ClockOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (b *bench) leaseOver(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update due set next_at = at`); err != nil {
		t.Fatal(err)
	}
}

const (
	yesterday   = "2026-03-22T00:00:10Z"
	yesterdayID = "due:live:acme:20260322T000010Z"
)

// One run executes the scheduled actions that an account has at one time. It belongs to the receipt of a fact that
// scheduled one of them. Future actions start no run.
func TestClock_Due_OneRunForAccountAndTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	b.await(t, p, "in_1", yesterday)
	b.await(t, p, "in_2", yesterday)
	b.await(t, p, "in_3", time.Now().Add(time.Hour).Format(time.RFC3339))
	other := b.dispatcher(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := other.ClockOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	b.clock(t)
	wg.Wait()
	s, ok := b.temporal.get(yesterdayID)
	if !ok || s.flow != "AccountDue" || s.in.ReceiptID != p.ReceiptID || s.in.Due == nil || s.in.Due.Account != "acme" || len(b.temporal.runs) != 1 {
		t.Fatalf("runs %+v, want one for the due action", b.temporal.runs)
	}
	if got := mustGet(t, b, p); got.Status != receipt.Processing || got.WorkflowID != yesterdayID {
		t.Errorf("receipt %s of run %s, want it at work in the clock's", got.Status, got.WorkflowID)
	}
	if found := b.clock(t); found != 0 {
		t.Errorf("found %d while the lease lasts", found)
	}
}

// If a process is killed before it starts the run, or before it gets the response, the action waits until its lease
// ends, and runs once.
func TestClock_StartLost_OnceMore_OneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	b.await(t, p, "in_1", yesterday)
	b.temporal.set(func(tp *temporal) { tp.lost = 1 })
	if _, err := b.d.ClockOnce(t.Context()); err == nil {
		t.Error("a start with a lost reply counted as success")
	}
	b.leaseOver(t)
	b.d = b.dispatcher(t)
	if found := b.clock(t); found != 1 || len(b.temporal.runs) != 1 {
		t.Errorf("found %d, runs %+v; want the one", found, b.temporal.runs)
	}
}

// A compensated receipt stays compensated, even if other actions of the same receipt are due.
func TestClock_Compensated_RunKnows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	b.await(t, p, "in_1", yesterday)
	if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.Compensated, "", ""); err != nil {
		t.Fatal(err)
	}
	b.clock(t)
	if s, ok := b.temporal.get(yesterdayID); !ok || !s.in.Due.Compensated {
		t.Errorf("started %+v, want it to know", s.in.Due)
	}
}

// An action of a receipt that is running or parked waits, because a person can decide about only one run of a receipt
// at a time.
func TestClock_ReceiptIsOpen_Waits(t *testing.T) {
	t.Parallel()
	for _, status := range []receipt.Status{receipt.Processing, receipt.Retrying, receipt.NeedsReview, receipt.Dead} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := rested(t, b)
			b.await(t, p, "in_1", yesterday)
			if err := b.store.Transition(t.Context(), p.ReceiptID, status, "parked", ""); err != nil {
				t.Fatal(err)
			}
			if b.clock(t); len(b.temporal.runs) != 0 || b.status(t, p.ReceiptID) != status {
				t.Fatalf("runs %+v, receipt %s; want it left alone", b.temporal.runs, b.status(t, p.ReceiptID))
			}
			if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.Processed, "", ""); err != nil {
				t.Fatal(err)
			}
			b.leaseOver(t)
			if b.clock(t); len(b.temporal.runs) != 1 {
				t.Errorf("runs %+v, want one once it is at rest", b.temporal.runs)
			}
		})
	}
}

// A run for the account and time may already exist for another receipt, because the action of that receipt was
// replaced. The existing run executes all due actions, and the second receipt does not change.
func TestClock_RunOfAnotherReceipt_LeftToThat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := rested(t, b), rested(t, b, id("evt_2"))
	b.await(t, first, "in_1", yesterday)
	b.clock(t)
	if _, err := b.pool.Exec(t.Context(), `delete from due`); err != nil {
		t.Fatal(err)
	}
	b.await(t, second, "in_2", yesterday)
	b.clock(t)
	if n := len(b.temporal.runs); n != 1 || b.status(t, second.ReceiptID) != receipt.Processed || b.status(t, first.ReceiptID) != receipt.Processing {
		t.Errorf("%d runs, receipts %s and %s", n, b.status(t, first.ReceiptID), b.status(t, second.ReceiptID))
	}
}

// If a row becomes due at a time whose run has already ended, a run with the current time executes it.
func TestClock_RunOfTheTimeHasEnded_OneOfThePresentTime(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprint("same receipt ", same), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first := rested(t, b)
			later := first
			if !same {
				later = rested(t, b, id("evt_2"))
			}
			b.await(t, first, "in_1", yesterday)
			b.clock(t)
			if _, err := b.starts.MarkFinished(t.Context(), run.Finished{Ref: first.Ref, WorkflowID: yesterdayID, RunID: "run-1",
				StartedAt: time.Now(), Outcome: "processed", Status: receipt.Processed}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.pool.Exec(t.Context(), `delete from due`); err != nil {
				t.Fatal(err)
			}
			b.await(t, later, "in_2", yesterday)
			before := time.Now().Truncate(time.Microsecond)
			b.clock(t)
			got := mustGet(t, b, later)
			s, ok := b.temporal.get(got.WorkflowID)
			if !ok || got.Status != receipt.Processing || len(b.temporal.runs) != 2 || s.in.ReceiptID != later.ReceiptID ||
				s.in.Due == nil || s.in.Due.Account != "acme" || s.in.Due.At.Before(before) {
				t.Errorf("receipt %s of run %q, runs %+v; want a second one, of the present time", got.Status, got.WorkflowID, b.temporal.runs)
			}
			if b.leaseOver(t); b.clock(t) != 1 || len(b.temporal.runs) != 2 {
				t.Errorf("runs %+v, want no third one while the second is at work", b.temporal.runs)
			}
		})
	}
}

// If Temporal no longer stores a run of scheduled actions, pawl starts the run again with the same workflow ID.
func TestSearchOnce_ClockRunForgotten_StartedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	b.await(t, p, "in_1", yesterday)
	b.clock(t)
	b.temporal.set(func(tp *temporal) { clear(tp.runs) })
	b.silent(t)
	if mended := b.searchOnce(t); mended != 1 {
		t.Errorf("mended %d, want 1", mended)
	}
	if s, ok := b.temporal.get(yesterdayID); !ok || s.flow != "AccountDue" || s.in.Due == nil || !s.in.Due.At.Equal(time.Date(2026, 3, 22, 0, 0, 10, 0, time.UTC)) {
		t.Errorf("started %+v", s)
	}
}

func mustGet(t *testing.T, b *bench, p receipt.Pending) receipt.Receipt {
	t.Helper()
	got, err := b.store.Get(t.Context(), p.ReceiptID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The gauge counts the age of an action that no run has executed, even while the sweep has leased the action. An
// action that waits for a parked receipt is not counted, because the gauge of parked receipts counts the receipt.
func TestClock_Overdue_SeenUnlessParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := rested(t, b)
	overdue := func() time.Duration {
		age, err := receipt.Overdue(t.Context(), b.pool)
		if err != nil {
			t.Fatal(err)
		}
		return age.Round(time.Minute)
	}
	b.await(t, p, "in_1", time.Now().Add(time.Hour).Format(time.RFC3339))
	if got := overdue(); got != 0 {
		t.Errorf("overdue by %s, want nothing that lies ahead", got)
	}
	b.await(t, p, "in_2", time.Now().Add(-2*time.Hour).Format(time.RFC3339))
	b.await(t, p, "in_3", time.Now().Add(-time.Hour).Format(time.RFC3339))
	b.clock(t) // this call leases the actions for a while
	if got := overdue(); got != 2*time.Hour {
		t.Errorf("overdue by %s, want two hours", got)
	}
	if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.NeedsReview, "effect_refused: x", ""); err != nil {
		t.Fatal(err)
	}
	if got := overdue(); got != 0 {
		t.Errorf("overdue by %s, want nothing that waits for a person", got)
	}
}
