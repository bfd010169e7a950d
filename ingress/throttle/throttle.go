// Package throttle keeps one sender from taking what others need: it bounds how often something may happen for each
// of any number of keys, and shares out connections and memory.
package throttle

import (
	"net/netip"
	"sync"
	"time"

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
	keys int

	mu sync.Mutex
	// Two generations bound the memory: when the younger one is full it becomes the older one. A key in neither starts
	// afresh.
	young, old map[K]*rate.Limiter
}

// New returns buckets of the rate, of at least one token each, or nil if the rate is not above zero. A key is
// remembered until as many others as keys have come; twice as many are held at most.
func New[K comparable](r Rate, keys int) *Buckets[K] {
	if r.PerSecond <= 0 {
		return nil
	}
	r.Burst = max(r.Burst, 1)
	return &Buckets[K]{rate: r, keys: keys, young: map[K]*rate.Limiter{}}
}

// Allow takes a token of key at now.
func (b *Buckets[K]) Allow(key K, now time.Time) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	l, ok := b.young[key]
	if !ok {
		if l, ok = b.old[key]; !ok {
			l = rate.NewLimiter(rate.Limit(b.rate.PerSecond), b.rate.Burst)
		}
		if len(b.young) >= b.keys {
			b.old, b.young = b.young, map[K]*rate.Limiter{}
		}
		b.young[key] = l
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
