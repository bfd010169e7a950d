// Package cache keeps database values in memory, so that a short outage of Postgres has no visible effect.
package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

const (
	// recallWithin is the timeout of a query.
	recallWithin = 2 * time.Second
	// leftAlone is the pause after a query that got no response from the database.
	leftAlone = time.Second
)

// Stale caches database values for the duration fresh, and for the duration stale if the database is unavailable. A
// change in the database does not invalidate a cached value.
//
// Invalidation by LISTEN was rejected: it needs a trigger and a connection that bypasses any pooler, and a lost
// connection invalidates the whole cache. Reading a row by its key costs no more than reading a version number of the
// row.
type Stale[K comparable, V any] struct {
	// Read queries the database. If until is not zero, the value expires at that time.
	read         func(context.Context, K) (value V, until time.Time, err error)
	fresh, stale time.Duration
	now          func() time.Time
	known        *lru.Cache[K, recalled[V]]
	flight       singleflight.Group
	// awayUntil is the end of the pause after a failed query, in Unix nanoseconds.
	awayUntil atomic.Int64
	// Reads counts the queries.
	Reads atomic.Int64
}

type recalled[V any] struct {
	value     V
	at, until time.Time
}

// ended reports whether the value has expired.
func (k recalled[V]) ended(now time.Time) bool { return !k.until.IsZero() && !now.Before(k.until) }

// New returns a cache with at most most values, which calls read to fill itself. New uses a value for the duration
// fresh before it reads the value again. If read fails, it uses the old value for the duration stale.
func New[K comparable, V any](most int, fresh, stale time.Duration,
	read func(context.Context, K) (V, time.Time, error)) *Stale[K, V] {
	known, err := lru.New[K, recalled[V]](most)
	if err != nil {
		panic(err) // the constant size is never invalid
	}
	return &Stale[K, V]{read: read, fresh: fresh, stale: stale, now: time.Now, known: known}
}

// Get returns the value of a key and its age. The error comes from read, or is [decide.ErrAway].
func (r *Stale[K, V]) Get(ctx context.Context, key K) (value V, age time.Duration, err error) {
	now := r.now()
	k, have := r.known.Get(key)
	ended := k.ended(now)
	away := now.UnixNano() < r.awayUntil.Load()
	if age = now.Sub(k.at); have && !ended && age < r.fresh {
		if age > r.fresh*4/5 && !away { // refresh early, so that frequent callers never wait
			r.ask(ctx, key)
		}
		return k.value, age, nil
	}
	err = errors.New("pawl retries it shortly")
	if !away {
		asked := <-r.ask(ctx, key)
		if err = asked.Err; err == nil || !decide.Away(err) {
			k := asked.Val.(recalled[V])
			return k.value, max(0, now.Sub(k.at)), err
		}
	}
	if have && !ended && now.Sub(k.at) < r.stale {
		return k.value, age, nil
	}
	return value, 0, fmt.Errorf("%w: %w", decide.ErrAway, err)
}

// ask queries the database. Concurrent calls for the same key share a query. It converts a panic into an error: the
// query runs on its own goroutine, so a panic there would end the process.
func (r *Stale[K, V]) ask(ctx context.Context, key K) <-chan singleflight.Result {
	return r.flight.DoChan(fmt.Sprint(key), func() (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				answer, err = recalled[V]{}, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		now := r.now()
		if k, have := r.known.Get(key); have && !k.ended(now) && now.Sub(k.at) <= r.fresh*4/5 {
			return k, nil // another call has refreshed it
		}
		// cancelling one caller must not cancel the query that others share
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recallWithin)
		defer stop()
		k := recalled[V]{at: now}
		r.Reads.Add(1)
		switch k.value, k.until, err = r.read(ctx, key); {
		case err == nil:
			r.known.Add(key, k)
		case !decide.Away(err): // a result, or an error about this key only
			r.known.Remove(key)
		default:
			r.awayUntil.Store(r.now().Add(leftAlone).UnixNano())
		}
		return k, err
	})
}
