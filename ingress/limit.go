package ingress

import (
	"cmp"
	"net/netip"
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
	// first byte, and Total that from its headers to the end of the answer; default 5 s, 10 s and 15 s. A body earns
	// another second for each 256 KiB. Go has no such bounds by default: one sleeping client would hold a connection
	// for ever.
	Header, Read, Total time.Duration
	// Connections is how many connections are open at once; default 2048. [throttle.Connections] shares them out.
	Connections int
	// Bodies bounds the bytes of all bodies over 8 KiB that are held at once. [throttle.Memory] shares them out.
	// Default 64 MiB: with the body limit alone, a thousand strangers could have us hold a thousand times it.
	Bodies int64
	// InFlight is how many deliveries are verified and committed at once; default 1024. [throttle.Slots] shares them
	// out.
	InFlight int
	// PerSource and PerAddress bound the deliveries per second of one source and of one remote
	// address (an IPv6 /64); zero means unbounded.
	PerSource, PerAddress throttle.Rate
	// TrustedProxies lists the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
}

func (l *Limits) setDefaults() {
	l.Ack, l.Body, l.Bodies = cmp.Or(l.Ack, 900*time.Millisecond), cmp.Or(l.Body, 1<<20), cmp.Or(l.Bodies, 64<<20)
	l.Header, l.Read = cmp.Or(l.Header, 5*time.Second), cmp.Or(l.Read, 10*time.Second)
	l.Total = cmp.Or(l.Total, 15*time.Second)
	l.Connections, l.InFlight = cmp.Or(l.Connections, 2048), cmp.Or(l.InFlight, 1024)
}

// keysRemembered is how many senders and sources a rate limit remembers at least.
const keysRemembered = 8192
