package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// refusedWorker is a worker that the SDK stops by itself after a while.
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

// A process whose worker the SDK has stopped does not live on without one, and asks at a bounded rate.
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
				n := &node{cfg: &config.Config{}, log: slog.New(slog.DiscardHandler)}
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
