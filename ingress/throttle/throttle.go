// Package throttle keeps one sender from taking what others need: it bounds how often something may happen for each
// of any number of keys, and shares out connections and memory.
package throttle

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Rate is a token bucket: so many per second in the long run, so many at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Buckets holds a token bucket per key, for the keys that were seen lately. Make one with [New]; a nil one allows
// everything. It is safe for concurrent use.
type Buckets[K comparable] struct {
	rate Rate

	mu   sync.Mutex
	held *simplelru.LRU[K, *rate.Limiter]
}

// New returns buckets of the rate, of at least one token each, or nil if the rate is not above zero. A key is
// remembered until more than keys others have come, and then starts afresh.
func New[K comparable](r Rate, keys int) *Buckets[K] {
	if r.PerSecond <= 0 {
		return nil
	}
	r.Burst = max(r.Burst, 1)
	held, _ := simplelru.NewLRU[K, *rate.Limiter](keys+1, nil) // fails without a size only
	return &Buckets[K]{rate: r, held: held}
}

// Allow takes a token of key at now.
func (b *Buckets[K]) Allow(key K, now time.Time) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	l, ok := b.held.Get(key)
	if !ok {
		l = rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.Burst)
		b.held.Add(key, l)
	}
	b.mu.Unlock()
	return l.AllowN(now, 1)
}

// Network returns what shares a bucket with addr: an IPv6 sender owns a whole /64.
func Network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}
