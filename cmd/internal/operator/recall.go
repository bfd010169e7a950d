package operator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	// recallWithin is how long the database may take for one answer.
	recallWithin = 2 * time.Second
	// leftAlone is for how long a database that does not answer is not asked again.
	leftAlone = time.Second
)

// recall answers from memory what the database has said a moment ago. Nobody tells it of changes: an answer holds for
// the time fresh, and for stale where the database is away.
//
// An earlier sketch heard of changes by LISTEN. That needs a connection past any pooler and a trigger, and asks for
// everything anew after each lost connection. A re-read by keys costs no more than a look at the version.
type recall[K comparable, V any] struct {
	// read asks the database. The answer holds until a time, too, where that is not zero.
	read         func(context.Context, K) (value V, until time.Time, err error)
	fresh, stale time.Duration
	now          func() time.Time
	known        *lru.Cache[K, recalled[V]]
	flight       singleflight.Group
	// awayUntil is until when the database is not asked, in nanoseconds.
	awayUntil atomic.Int64
	// reads counts the questions to the database.
	reads atomic.Int64
}

type recalled[V any] struct {
	value     V
	at, until time.Time
}

// ended reports whether the answer does not hold at a time.
func (k recalled[V]) ended(now time.Time) bool { return !k.until.IsZero() && !now.Before(k.until) }

func newRecall[K comparable, V any](most int, fresh, stale time.Duration,
	read func(context.Context, K) (V, time.Time, error)) *recall[K, V] {
	known, err := lru.New[K, recalled[V]](most)
	if err != nil {
		panic(err) // most is a constant
	}
	return &recall[K, V]{read: read, fresh: fresh, stale: stale, now: time.Now, known: known}
}

// get returns the value of a key, and how old it is. The error is one of read's, or [ErrAway].
func (r *recall[K, V]) get(ctx context.Context, key K) (value V, age time.Duration, err error) {
	now := r.now()
	k, have := r.known.Get(key)
	ended := k.ended(now)
	away := now.UnixNano() < r.awayUntil.Load()
	if age = now.Sub(k.at); have && !ended && age < r.fresh {
		if age > r.fresh*4/5 && !away { // so that nobody waits for what is asked for often
			r.ask(ctx, key)
		}
		return k.value, age, nil
	}
	err = errors.New("it is asked again in a moment")
	if !away {
		asked := <-r.ask(ctx, key)
		if err = asked.Err; err == nil || !Away(err) {
			k := asked.Val.(recalled[V])
			return k.value, max(0, now.Sub(k.at)), err
		}
	}
	if have && !ended && now.Sub(k.at) < r.stale {
		return k.value, age, nil
	}
	return value, 0, fmt.Errorf("%w: %w", ErrAway, err)
}

// ask asks the database, once for all who ask for the same at once. Its channel has the answer. A panic is an error: on
// a goroutine of its own, nobody else would stop it from ending the process.
func (r *recall[K, V]) ask(ctx context.Context, key K) <-chan singleflight.Result {
	return r.flight.DoChan(fmt.Sprint(key), func() (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				answer, err = recalled[V]{}, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		now := r.now()
		if k, have := r.known.Get(key); have && !k.ended(now) && now.Sub(k.at) <= r.fresh*4/5 {
			return k, nil // it was asked for since whoever asks has looked
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recallWithin) // others wait for it, too
		defer stop()
		k := recalled[V]{at: now}
		r.reads.Add(1)
		switch k.value, k.until, err = r.read(ctx, key); {
		case err == nil:
			r.known.Add(key, k)
		case !Away(err): // it is an answer, or a fault about this key alone
			r.known.Remove(key)
		default:
			r.awayUntil.Store(r.now().Add(leftAlone).UnixNano())
		}
		return k, err
	})
}
