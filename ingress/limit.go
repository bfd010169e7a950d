package ingress

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// Limits bounds the resources of the server. The zero value means the defaults below and no rate limits.
type Limits struct {
	// Ack bounds the commit of one delivery. Default 900 ms, so that a 503 leaves within a second.
	Ack time.Duration
	// Body is the largest body in bytes if neither source nor provider sets a limit. Default 1 MiB.
	Body int64
	// Header, Read and Total bound the time of a request: from its first byte to the end of its headers, from its first
	// byte to the end of its body, and from the end of its headers to the end of the answer. Defaults 5 s, 10 s and 15
	// s. A body earns another second for each 256 KiB. Go sets no such bounds by default: a client that stops sending
	// would hold a connection for ever.
	Header, Read, Total time.Duration
	// Connections is how many connections may be open. Default 2048. [throttle.Connections] divides them among senders.
	Connections int
	// Bodies bounds the bytes of all bodies over 8 KiB in memory. Default 64 MiB. [throttle.Memory] divides them among
	// senders. With only the limit per body, a thousand senders could occupy a thousand times that limit.
	Bodies int64
	// InFlight is how many deliveries are verified and committed at once. Default 1024. [throttle.Slots] divides them
	// among senders.
	InFlight int
	// PerSource and PerAddress bound the deliveries per second of one source and of one remote address (an IPv6 /64).
	// Zero means unbounded.
	PerSource, PerAddress throttle.Rate
	// TrustedProxies lists the networks of proxies that set X-Forwarded-For.
	TrustedProxies []netip.Prefix
}

func (l *Limits) setDefaults() {
	l.Ack, l.Body, l.Bodies = cmp.Or(l.Ack, 900*time.Millisecond), cmp.Or(l.Body, 1<<20), cmp.Or(l.Bodies, 64<<20)
	l.Header, l.Read = cmp.Or(l.Header, 5*time.Second), cmp.Or(l.Read, 10*time.Second)
	l.Total = cmp.Or(l.Total, 15*time.Second)
	l.Connections, l.InFlight = cmp.Or(l.Connections, 2048), cmp.Or(l.InFlight, 1024)
}

// keysRemembered is how many senders and sources a rate limit remembers.
const keysRemembered = 8192
