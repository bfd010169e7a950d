package effect

import (
	"math/rand/v2"
	"time"
)

// Retries say when an effect is tried again after a failure that can pass. The ledger counts the failures and the time:
// a reset, an activity that is executed again, and another run for the same fact change neither.
type Retries struct {
	// First is the wait after the first failure. It doubles up to Max, and each wait is up to a fifth longer, so that
	// many effects that failed together do not come back together.
	First, Max time.Duration
	// For is how long an effect is tried. The last try comes when that is over, counted from the first one.
	For time.Duration
}

// Next returns the wait after so many failures, and whether another try comes at all. left is what remains of the time
// for trying, and asked the wait that the other side asked for, zero for none. A wait that would leave less than First
// lasts to the end of the time.
func (r Retries) Next(failures int, left, asked time.Duration) (wait time.Duration, more bool) {
	if left <= 0 || left < r.First {
		return 0, false
	}
	wait = r.First
	for range failures - 1 {
		if wait *= 2; wait >= r.Max {
			break
		}
	}
	wait = min(wait, r.Max)
	if asked > 0 {
		wait = asked
	}
	if wait = jitter(wait); left-wait < r.First {
		wait = left
	}
	return wait, true
}

// left is how much of the time for trying remains, when the round's first attempt was begun so long ago, and the key's
// first so long. The last attempt ends before the sink forgets the key: after that it could be applied twice.
func (p Policy) left(trying, age time.Duration) time.Duration {
	left := p.Retries.For - (trying - p.Gate.pausedFor(trying))
	if p.KeyLifetime > 0 {
		left = min(left, p.KeyLifetime-p.Timeout-age)
	}
	return left
}

// Our own trouble, a database that is away or a key that another holds, is met with waits of our own, for ever.
const (
	ownFirst = 500 * time.Millisecond
	ownMax   = 30 * time.Second
)

// ownWait is the wait after a try of Temporal's that our own trouble has ended.
func ownWait(attempt int32) time.Duration {
	return min(ownFirst<<min(attempt-1, 16), ownMax)
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/5+1))
}
