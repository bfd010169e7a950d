// Package throttle divides capacity among senders: it limits rates, the number of connections, the memory of bodies,
// and the number of deliveries in progress.
package throttle

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Rate is the rate of a token bucket: PerSecond tokens on average, and Burst at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Buckets holds a token bucket for each recently used key. Make it with [New]. A nil *Buckets allows everything. It is
// safe for concurrent use.
type Buckets[K comparable] struct {
	rate Rate

	mu   sync.Mutex
	held *simplelru.LRU[K, *rate.Limiter]
}

// New returns buckets of the given rate, or nil if the rate is zero. The burst is at least one. Buckets remembers the
// keys most recently used keys; a forgotten key starts again with a full bucket.
func New[K comparable](r Rate, keys int) *Buckets[K] {
	if r.PerSecond <= 0 {
		return nil
	}
	r.Burst = max(r.Burst, 1)
	held, _ := simplelru.NewLRU[K, *rate.Limiter](keys+1, nil) // returns an error only if the size is not positive
	return &Buckets[K]{rate: r, held: held}
}

// Allow takes a token of key at now. It returns false if the bucket is empty.
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

// Network returns the network that is treated as one sender: an IPv4 address, or the /64 of an IPv6 address.
func Network(addr netip.Addr) netip.Addr { return prefix(addr, 32, 64) }

// Wide returns the /24 of an IPv4 address, or the /64 of an IPv6 address. One person may have all addresses of such a
// network.
func Wide(addr netip.Addr) netip.Addr { return prefix(addr, 24, 64) }

// wide returns the /24 of an IPv4 address, or the /48 of an IPv6 address. One attacker may have many addresses in such
// a network.
func wide(addr netip.Addr) netip.Addr { return prefix(addr, 24, 48) }

func prefix(addr netip.Addr, bits4, bits6 int) netip.Addr {
	bits := bits4
	if addr.Is6() {
		bits = bits6
	}
	if p, err := addr.Prefix(bits); err == nil {
		return p.Addr()
	}
	return addr
}

// takeOff subtracts n from the count of key, and deletes a count of zero.
func takeOff[K comparable, N int | int64](counts map[K]N, key K, n N) {
	if counts[key] -= n; counts[key] == 0 {
		delete(counts, key)
	}
}
