package effect

import (
	"math/rand/v2"
	"time"
)

// Retries configures the retries after a transient failure. The ledger stores the number of failures and the start
// time, so a reset, a repeated activity or another run for the same fact changes neither.
type Retries struct {
	// First is the delay after the first failure. It doubles up to Max. Up to 20 % of jitter is added, so that
	// effects that failed together do not retry together.
	First, Max time.Duration
	// For is the time during which an effect is retried, counted from the first attempt. The last attempt happens at
	// its end.
	For time.Duration
}

// Next returns the delay after that many failures, and whether another attempt follows. left is the remaining retry
// time. asked is the delay that the sink requested, or zero. If less than First would remain after the delay, the
// delay extends to the end of the retry time.
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

// left returns the remaining retry time. trying is the time since the round's first attempt, age the time since the
// first attempt with this key. The last attempt must end before the sink forgets the key, because a later one could
// be applied twice.
func (p Policy) left(trying, age time.Duration) time.Duration {
	left := p.Retries.For - (trying - p.Gate.pausedFor(trying))
	if p.KeyLifetime > 0 {
		left = min(left, p.KeyLifetime-p.Timeout-age)
	}
	return left
}

// Delays after a failure of pawl's own infrastructure or a key that another run holds. Such retries have no limit.
const (
	ownFirst = 500 * time.Millisecond
	ownMax   = 30 * time.Second
)

// ownWait returns the delay after the given Temporal attempt.
func ownWait(attempt int32) time.Duration {
	return min(ownFirst<<min(attempt-1, 16), ownMax)
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/5+1))
}
