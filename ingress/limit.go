package ingress

import (
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// Limits bounds what the server takes on. The zero value has the defaults named below and no rate
// limits.
type Limits struct {
	// Ack bounds the commit of one delivery; default 900 ms, so that a 503 leaves within a second.
	Ack time.Duration
	// Body is the largest body in bytes where neither source nor provider says; default 1 MiB.
	Body int64
	// Header bounds the time to the end of a request's headers and Read that to the end of its body, both from its
	// first byte, and Total that from its headers to the end of the answer; default 5 s, 10 s and 15 s. Go's own are
	// none, with which one sleeping client holds a connection for ever.
	Header, Read, Total time.Duration
	// Bodies bounds the bytes of all bodies that are held at once; what is over is shed. Default
	// 64 MiB: with the body limit alone, a thousand strangers could have us hold a thousand times it.
	Bodies int64
	// InFlight is how many deliveries are worked on at once; the next is shed. Default 1024.
	InFlight int
	// PerSource and PerAddress bound the deliveries per second of one source and of one remote
	// address (an IPv6 /64); zero means unbounded.
	PerSource, PerAddress throttle.Rate
	// TrustedProxies lists the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
}

func (l *Limits) setDefaults() {
	if l.Ack <= 0 {
		l.Ack = 900 * time.Millisecond
	}
	if l.Body <= 0 {
		l.Body = 1 << 20
	}
	if l.Header <= 0 {
		l.Header = 5 * time.Second
	}
	if l.Read <= 0 {
		l.Read = 10 * time.Second
	}
	if l.Total <= 0 {
		l.Total = 15 * time.Second
	}
	if l.Bodies <= 0 {
		l.Bodies = 64 << 20
	}
	if l.InFlight <= 0 {
		l.InFlight = 1024
	}
}

// keysRemembered is how many senders and sources a rate limit remembers at least.
const keysRemembered = 8192

// budget bounds the bytes that all bodies take up at once.
type budget struct {
	most int64
	held atomic.Int64
}

// errOverBudget ends the reading of a body for which there is no room now.
var errOverBudget = errors.New("too many bytes of bodies are held")

// metered counts what is read of one body against the budget. release gives it back.
type metered struct {
	io.Reader
	budget *budget
	taken  int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.taken += int64(n)
	if m.budget.held.Add(int64(n)) > m.budget.most {
		return n, errOverBudget
	}
	return n, err
}

func (m *metered) release() { m.budget.held.Add(-m.taken) }
