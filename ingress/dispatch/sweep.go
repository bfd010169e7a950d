package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/schema/receipt"
)

// sweep starts the receipts that the queue did not start. While Temporal is down, only the sweep calls it.
func (d *Dispatcher) sweep(ctx context.Context) {
	pause := firstPause
	for {
		_, started, err := d.SweepOnce(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errUnable) {
			d.cfg.Log.Warn("sweep failed", "error", err)
		}
		next := d.cfg.Every
		switch {
		case d.down.Load():
			next, pause = pause, min(2*pause, lastPause)
		case started > 0:
			// More receipts may be due. A receipt that could not be started is due again when its lease ends, so it
			// does not slow down other receipts.
			next, pause = 0, firstPause
		default:
			pause = firstPause
		}
		// The random part prevents that all processes retry at the same time after an outage.
		if !wait(ctx, next/2+rand.N(next/2+1)) {
			return
		}
	}
}

// SweepOnce starts one batch of due receipts. It returns how many were due and how many of them it started. While
// Temporal is down, SweepOnce tries to start one receipt. If that start succeeds, the dispatcher treats Temporal as up
// again. If Temporal was down or too slow, the remaining receipts are due again at once. A receipt that failed for
// another reason is due again after its lease.
func (d *Dispatcher) SweepOnce(ctx context.Context) (found, started int, err error) {
	limit := sweepBatch
	if d.down.Load() {
		limit = 1
	}
	until := d.cfg.Now().Add(keep)
	due, err := d.cfg.Receipts.Due(ctx, limit)
	if err != nil {
		return 0, 0, fmt.Errorf("sweep: %w", err)
	}
	if len(due) == 0 {
		// No receipt is due, so the sweep cannot test whether Temporal has recovered. Let the queue test it.
		d.down.Store(false)
		return 0, 0, nil
	}
	if started, err = d.startAll(ctx, due, until); err != nil {
		err = fmt.Errorf("sweep: %w", err)
	}
	d.note(ctx)
	return len(due), started, err
}

// startAll starts the receipts in due. It returns how many it started, and the first error. It stops at the time until
// or after the first errUnable, and makes the remaining receipts due again.
func (d *Dispatcher) startAll(ctx context.Context, due []receipt.Pending, until time.Time) (started int, first error) {
	var gone atomic.Bool
	var mu sync.Mutex // guards the results
	each(d.cfg.Workers, due, func(p receipt.Pending) {
		var err error
		tried := !gone.Load() && !d.cfg.Now().After(until)
		if tried {
			err = d.startAndMark(ctx, p)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !tried || errors.Is(err, errUnable):
			gone.Store(true)
			d.letGo(p.ReceiptID)
		case err == nil:
			started++
		}
		if first == nil {
			first = err
		}
	})
	return started, first
}

// each calls do for each of items, up to workers of them at once, and returns after all calls have returned.
func each[T any](workers int, items []T, do func(T)) {
	var running errgroup.Group
	running.SetLimit(workers)
	for _, item := range items {
		running.Go(func() error {
			do(item)
			return nil
		})
	}
	_ = running.Wait()
}

// startAndMark starts one receipt and records the start. It logs and returns a failure.
func (d *Dispatcher) startAndMark(ctx context.Context, p receipt.Pending) error {
	started, err := d.start(ctx, p)
	if err != nil {
		d.failed(ctx, p, err)
		return err
	}
	d.markLater(started)
	return nil
}
