package ingress

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// Limits bounds the resources of the server. The zero value means the defaults below and no rate limits.
type Limits struct {
	// Ack is the timeout of the commit of one delivery. Default 900 ms, so that a 503 is sent within a second.
	Ack time.Duration
	// Body is the maximum size of a body in bytes, unless the source or the provider sets a limit. Default 1 MiB.
	Body int64
	// Header is the maximum time from the first byte of a request to the end of its headers, default 5 s. Read is the
	// maximum time from the first byte to the end of the body, default 10 s. Total is the maximum time from the end of
	// the headers to the end of the answer, default 15 s. Each 256 KiB of a body extends Read and Total by a second. By
	// default, net/http has no limits for these times, so a client that stops sending would occupy a connection
	// forever.
	Header, Read, Total time.Duration
	// Connections is the maximum number of open connections. Default 2048. [throttle.Connections] divides them among
	// senders.
	Connections int
	// Bodies is the maximum size of all bodies over 8 KiB in memory together, in bytes. Default 64 MiB.
	// [throttle.Memory] divides the bytes among senders.
	Bodies int64
	// InFlight is the maximum number of deliveries that are verified and committed at once. Default 1024.
	// [throttle.Slots] divides them among senders.
	InFlight int
	// PerSource and PerAddress limit the deliveries per second to one source, and from one remote address (an IPv6
	// /64). Zero means no limit.
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

// keysRemembered is the maximum number of senders or sources with a token bucket.
const keysRemembered = 8192
