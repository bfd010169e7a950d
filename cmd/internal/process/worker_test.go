package process

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// refusedWorker is a worker that the SDK stops after a while.
type refusedWorker struct {
	worker.Worker
	after   time.Duration
	refused func(error)
	stopped *int
}

func (w refusedWorker) Start() error {
	if w.after == 0 {
		return errors.New("connection refused")
	}
	time.AfterFunc(w.after, func() { w.refused(serviceerror.NewNamespaceNotFound("pawl")) })
	return nil
}

func (w refusedWorker) Stop() { *w.stopped++ }

// If the SDK stops the worker, the process starts another one, at a bounded rate.
func TestKeepWorking_WorkerIsRefused_AnotherIsStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lives       time.Duration
		least, most int
	}{
		"after two minutes": {2 * time.Minute, 25, 30},
		"at once":           {time.Nanosecond, 500, 730},
		"never started":     {0, 500, 730},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &Node{Config: &config.Config{}, log: slog.New(slog.DiscardHandler)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				made, stopped := 0, 0
				n.keepWorking(ctx, func(_ context.Context, o worker.Options) (worker.Worker, error) {
					made++
					return refusedWorker{after: c.lives, refused: o.OnFatalError, stopped: &stopped}, nil
				})
				if made < c.least || made > c.most {
					t.Errorf("%d workers in an hour, want %d to %d", made, c.least, c.most)
				}
				if c.lives > 0 && made-stopped > 1 {
					t.Errorf("%d of %d workers were stopped", stopped, made)
				}
			})
		})
	}
}

// An attempt records its failure and is suspended before it updates the receipt. Later attempts end the retries, and
// the run parks. When the first attempt continues, the receipt stays parked.
func TestShowRetrying_AfterTheRunHasParked_StaysParked(t *testing.T) {
	t.Parallel()
	receipts := receipt.NewStore(schematest.New(t), receipt.Options{Timeout: 10 * time.Second})
	defer receipts.Close()
	kept, err := receipts.Insert(t.Context(), receipt.Delivery{Source: "github", Provider: "github", ReceivedAt: time.Now(),
		Events: []receipt.New{{Mode: "live", EventID: "evt_1", Identity: receipt.ByID, Type: "push", Status: receipt.Received, Body: []byte("{}")}}})
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Receipts: receipts, log: slog.New(slog.DiscardHandler)}
	task := time.Now()
	tried := effect.Call{Ref: event.Ref{ReceiptID: kept[0].ReceiptID}, AsOf: task}
	n.showRetrying(t.Context(), tried, "answered 503")
	if r, err := receipts.Get(t.Context(), tried.ReceiptID); err != nil || r.Status != receipt.Retrying {
		t.Errorf("while it is tried the receipt is %s, %v", r.Status, err)
	}
	if err := receipts.TransitionAsOf(t.Context(), task.Add(time.Minute), tried.ReceiptID, receipt.Dead, "exhausted", "exhausted"); err != nil {
		t.Fatal(err)
	}
	n.showRetrying(t.Context(), tried, "answered 503")
	if r, err := receipts.Get(t.Context(), tried.ReceiptID); err != nil || r.Status != receipt.Dead || r.Reason != "exhausted" {
		t.Errorf("the receipt is %s (%s), %v; want it parked", r.Status, r.Reason, err)
	}
}
