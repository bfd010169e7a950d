package effect

import (
	"math/rand/v2"
	"time"
)

// Retries configures the retries after a transient failure. The ledger stores the number of failures and the start
// time, so they are the same after a reset, in a repeated activity, and in another run for the same fact.
type Retries struct {
	// InitialInterval is the delay after the first failure. It doubles up to MaxInterval. A random part of up to 20 %
	// is added, so that effects that failed at the same time do not retry at the same time.
	InitialInterval, MaxInterval time.Duration
	// MaxElapsed is the time from the first attempt to the last attempt.
	MaxElapsed time.Duration
}

// Next returns the delay before the next attempt, and whether another attempt follows. failures is the number of failed
// attempts, left the remaining retry time, and asked the delay that the sink requested, or zero. If less than
// InitialInterval would remain after the delay, the delay is left.
func (r Retries) Next(failures int, left, asked time.Duration) (wait time.Duration, more bool) {
	if left <= 0 || left < r.InitialInterval {
		return 0, false
	}
	wait = r.InitialInterval
	for range failures - 1 {
		if wait *= 2; wait >= r.MaxInterval {
			break
		}
	}
	wait = min(wait, r.MaxInterval)
	if asked > 0 {
		wait = asked
	}
	if wait = jitter(wait); left-wait < r.InitialInterval {
		wait = left
	}
	return wait, true
}

// left returns the remaining retry time. trying is the time since the first attempt of the round, and age the time
// since the first attempt with this key. The last attempt must end before the sink forgets the key, because the sink
// could apply a later attempt twice.
func (p Policy) left(trying, age time.Duration) time.Duration {
	left := p.Retries.MaxElapsed - (trying - p.Gate.pausedFor(trying))
	if p.KeyLifetime > 0 {
		left = min(left, p.KeyLifetime-p.Timeout-age)
	}
	return left
}

// These are the delays after a failure of pawl's own infrastructure, or if another run has claimed the key. Such
// retries have no limit.
const (
	ownFirst = 500 * time.Millisecond
	ownMax   = 30 * time.Second
)

// ownWait returns the delay after an attempt with the given number in Temporal.
func ownWait(attempt int32) time.Duration {
	return min(ownFirst<<min(attempt-1, 16), ownMax)
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/5+1))
}
