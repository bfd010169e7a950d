package throttle

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Connections limits the open connections of a server and divides them among networks. Make it with [NewConnections];
// it is safe for concurrent use.
//
// If the maximum number of connections is open, a new connection makes the server close another connection, by these
// rules:
//
//  1. It closes the connection that has been idle longest: between two requests, or for a second after it was opened
//     without the head of a request.
//  2. If no connection is idle, it closes a stalled one: unproven, and without progress for a second. Otherwise it
//     closes a younger unproven connection. In the network with the most unproven connections, it closes the
//     connection without progress for the longest time.
//  3. Networks that have delivered an event lately are spared while all of them together have at most half of the
//     maximum number of connections as unproven connections.
//  4. If every connection is proven, the new connection is refused.
//
// So a connection younger than a second is closed only if no idle or stalled connection is left. A distant sender sends
// the head of its request within this second. A connection is unproven until its request is verified, so verified
// deliveries of many senders behind one load balancer do not count. A network is an IPv4 address or an IPv6 /64.
// Connections also counts unproven connections per /24 or /48.
type Connections struct {
	most            int
	log             *slog.Logger
	warnFull        rate.Sometimes
	warnUnavailable rate.Sometimes

	mu sync.Mutex
	// open holds the open connections. The index of a connection is [Conn].place.
	open []*Conn
	// networks and wide count unproven connections: networks by address or /64, and wide by /24 or /48.
	networks, wide map[netip.Addr]*network
	// delivered holds the networks that lately sent a verified event.
	delivered *simplelru.LRU[netip.Addr, struct{}]
	displaced int64
}

// network counts the unproven connections of one network.
type network struct {
	unproven int
	rank     int // in the current search
}

const (
	// warnEvery is the minimum time between two warnings that any sender can cause.
	warnEvery = 10 * time.Second
	// greeting is how long a connection may send nothing before it is idle or stalled. It allows for several round
	// trips.
	greeting = time.Second
	// networksRemembered is the maximum number of networks in [Connections.delivered], which have delivered an event.
	networksRemembered = 1024
)

// NewConnections returns a limiter that allows most open connections. It logs a warning when it closes connections to
// make room, or cannot accept a connection.
func NewConnections(most int, log *slog.Logger) *Connections {
	delivered, _ := simplelru.NewLRU[netip.Addr, struct{}](networksRemembered, nil) // never fails, the size is positive
	return &Connections{
		most: most, log: log, warnFull: rate.Sometimes{Interval: warnEvery},
		warnUnavailable: rate.Sometimes{Interval: warnEvery},
		networks:        map[netip.Addr]*network{}, wide: map[netip.Addr]*network{}, delivered: delivered,
	}
}

// maxHead is the maximum size of a request's head in bytes. net/http allows 4 KiB more. The largest known heads have
// about 5 KiB: PayPal's, and heads with signed tokens from proxies.
const maxHead = 16 << 10

// Serve runs server on l, and limits its connections and the heads of its requests. It returns when server.Serve
// returns, with nil after a shutdown. Serve sets ConnState, ConnContext and MaxHeaderBytes of server.
func (cs *Connections) Serve(server *http.Server, l net.Listener) error {
	server.ConnState, server.ConnContext, server.MaxHeaderBytes = cs.follow, withConn, maxHead
	if err := server.Serve(&listener{l, cs}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Count returns how many connections are open, how many of them are unproven, and how many were ever displaced.
func (cs *Connections) Count() (open, unproven int, displaced int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, n := range cs.networks {
		unproven += n.unproven
	}
	return len(cs.open), unproven, cs.displaced
}

// Crowded reports whether three quarters of the allowed connections are open. The server then closes each connection
// after its answer, so that it rarely has to close a connection without an answer.
func (cs *Connections) Crowded() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return 4*len(cs.open) > 3*cs.most
}

// follow is the ConnState hook of the server. It records whether a request is in progress on c.
func (cs *Connections) follow(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	switch {
	case !ok:
	case state == http.StateActive:
		conn.Requested(conn.peer)
	case state == http.StateIdle:
		conn.head.answered()
		conn.change(func() { conn.since, conn.rests = time.Now(), true }) // the connection stays proven or unproven
	}
}

type listener struct {
	net.Listener
	cs *Connections
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.cs.warnUnavailable.Do(func() { l.cs.log.Warn("no connection can be accepted", "error", err) })
			}
			return nil, err
		}
		if c, ok := l.cs.enter(inner); ok {
			return c, nil
		}
		_ = inner.Close()
	}
}

// enter adds inner to the open connections, and closes another connection if necessary. It returns false if it could
// close none, because every connection is proven.
func (cs *Connections) enter(inner net.Conn) (*Conn, bool) {
	addr, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // the zero address on failure
	c := &Conn{Conn: inner, cs: cs, peer: plain(addr.Addr())}
	cs.mu.Lock()
	var gone *Conn
	if len(cs.open) >= cs.most {
		if gone = cs.victim(); gone == nil {
			cs.mu.Unlock()
			return nil, false
		}
		gone.leave()
		gone.displaced = true
		cs.displaced++
	}
	c.place = len(cs.open)
	cs.open = append(cs.open, c)
	c.suspect(c.peer)
	c.rests = true
	cs.mu.Unlock()
	if gone != nil {
		_ = gone.Conn.Close()
		cs.warnFull.Do(func() {
			cs.log.Warn("all connections are taken: each new one closes another", "most", cs.most, "sender", gone.peer)
		})
	}
	return c, true
}

// victim returns the connection that a new connection closes, or nil if every connection is proven. The caller has
// locked cs.mu. victim reads all connections, which takes less than 0.1 ms for 2,048.
func (cs *Connections) victim() *Conn {
	cs.rankNetworks()
	stalled := time.Now().Add(-greeting)
	var idle, worst *Conn
	for _, c := range cs.open {
		switch {
		case c.rests && (c.requested || c.since.Before(stalled)):
			if idle == nil || c.since.Before(idle.since) {
				idle = c
			}
		case c.network != nil:
			if worst == nil || c.worse(worst, stalled) {
				worst = c
			}
		}
	}
	return cmp.Or(idle, worst)
}

// worse reports whether c is closed before other. Stalled connections are closed before younger ones. Then the rank of
// the network decides, and then the time without progress.
func (c *Conn) worse(other *Conn, stalled time.Time) bool {
	switch still := c.since.Before(stalled); {
	case still != other.since.Before(stalled):
		return still
	case c.network.rank != other.network.rank:
		return c.network.rank > other.network.rank
	}
	return c.since.Before(other.since)
}

// rankNetworks sets the rank of each network. Connections of the network with the highest rank are closed first. The
// rank grows with the unproven connections of the /24 or /48, and then with the unproven connections of the network
// itself. The rank of networks in cs.delivered is 0, unless their unproven connections are more than half of the
// maximum. The caller has locked cs.mu.
func (cs *Connections) rankNetworks() {
	held := 0
	for addr, n := range cs.networks {
		n.rank = cs.wide[wide(addr)].unproven*cs.most + n.unproven
		if cs.delivered.Contains(addr) {
			held += n.unproven
		}
	}
	if 2*held > cs.most {
		return
	}
	for _, addr := range cs.delivered.Keys() {
		if n, ok := cs.networks[addr]; ok {
			n.rank = 0
		}
	}
}

// countUnproven adds one unproven connection to the network of addr, and returns the network.
func countUnproven(networks map[netip.Addr]*network, addr netip.Addr) *network {
	n, ok := networks[addr]
	if !ok {
		n = &network{}
		networks[addr] = n
	}
	n.unproven++
	return n
}

// discount subtracts one unproven connection from the network of addr. It deletes the network if none is left.
func discount(networks map[netip.Addr]*network, addr netip.Addr) {
	n := networks[addr]
	if n.unproven--; n.unproven == 0 {
		delete(networks, addr)
	}
}
