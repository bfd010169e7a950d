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

// Connections limits how many connections a server holds and divides them among networks. Make one with
// [NewConnections]; it is safe for concurrent use.
//
// A new connection that finds every place taken closes another one:
//
//  1. It closes the connection that has been idle longest: between two requests, or for a second after it was opened
//     without the head of a request.
//  2. If no connection is idle, it closes a stalled one: unproven, and without progress for a second. Otherwise it
//     closes a younger unproven one. The network with the most unproven connections loses its
//     connection with the longest time without progress.
//  3. Networks that have delivered an event lately are spared while all of them together have at most half of the
//     places in unproven connections.
//  4. If every connection is proven, the new connection is refused.
//
// So a connection younger than a second outlives every idle or stalled one, which is enough for a distant sender. A
// connection is unproven until its request is verified: the deliveries of many senders behind one load balancer do not
// count against each other. A network is a /24 or a /48, and in it an address or a /64.
type Connections struct {
	most            int
	log             *slog.Logger
	warnFull        rate.Sometimes
	warnUnavailable rate.Sometimes

	mu sync.Mutex
	// open holds each connection at its place.
	open []*Conn
	// networks holds each address or /64 with unproven connections, wide each /24 or /48.
	networks, wide map[netip.Addr]*network
	// delivered holds the networks that have delivered lately.
	delivered *simplelru.LRU[netip.Addr, struct{}]
	displaced int64
}

// network counts the unproven connections of one network.
type network struct {
	unproven int
	rank     int // in the current search
}

const (
	// warnEvery keeps warnings that any sender can cause from filling the log.
	warnEvery = 10 * time.Second
	// greeting is how long a connection may make no progress before it counts as idle or stalled: several round trips.
	greeting = time.Second
	// networksRemembered limits the networks that have delivered.
	networksRemembered = 1024
)

// NewConnections returns a limiter for most connections. It warns on log when connections are displaced or cannot be
// accepted.
func NewConnections(most int, log *slog.Logger) *Connections {
	delivered, _ := simplelru.NewLRU[netip.Addr, struct{}](networksRemembered, nil) // fails only without a size
	return &Connections{
		most: most, log: log, warnFull: rate.Sometimes{Interval: warnEvery},
		warnUnavailable: rate.Sometimes{Interval: warnEvery},
		networks:        map[netip.Addr]*network{}, wide: map[netip.Addr]*network{}, delivered: delivered,
	}
}

// maxHead is the largest head of a request in bytes; net/http adds 4 KiB. The longest known heads of deliveries are
// PayPal's, and signed tokens behind proxies, of about 5 KiB.
const maxHead = 16 << 10

// Serve runs server on l with its connections and the heads of its requests limited. It returns when server does, and
// nil after a shutdown. Serve sets ConnState, ConnContext and MaxHeaderBytes of server.
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

// Crowded reports whether three quarters of the places are taken. A server then ends each connection with its answer,
// so that clients reconnect and no connection has to be displaced.
func (cs *Connections) Crowded() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return 4*len(cs.open) > 3*cs.most
}

// follow records each change of c's state. It is the ConnState of the server.
func (cs *Connections) follow(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	switch {
	case !ok:
	case state == http.StateActive:
		conn.Requested(conn.peer)
	case state == http.StateIdle:
		conn.head.answered()
		conn.change(func() { conn.since, conn.rests = time.Now(), true }) // it stays proven or unproven
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

// enter gives inner a place. It reports false if every connection is proven.
func (cs *Connections) enter(inner net.Conn) (*Conn, bool) {
	addr, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // connections without an address share one
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

// victim returns the connection that a new one closes, or nil if every connection is proven. cs.mu is held. It
// reads all places, which takes less than 0.1 ms at 2,048 of them.
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

// worse reports whether c is closed before other: a stalled connection before a young one, then by the rank of the
// network, then by the time of the last progress.
func (c *Conn) worse(other *Conn, stalled time.Time) bool {
	switch still := c.since.Before(stalled); {
	case still != other.since.Before(stalled):
		return still
	case c.network.rank != other.network.rank:
		return c.network.rank > other.network.rank
	}
	return c.since.Before(other.since)
}

// rankNetworks ranks each network by the unproven connections of its /24 or /48, and then by its own. A network that
// has delivered ranks lowest while all such networks together have at most half of the places. cs.mu is held.
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

// countUnproven adds one connection of addr, and returns its network.
func countUnproven(networks map[netip.Addr]*network, addr netip.Addr) *network {
	n, ok := networks[addr]
	if !ok {
		n = &network{}
		networks[addr] = n
	}
	n.unproven++
	return n
}

// discount removes one connection of addr. It keeps no network without any.
func discount(networks map[netip.Addr]*network, addr netip.Addr) {
	n := networks[addr]
	if n.unproven--; n.unproven == 0 {
		delete(networks, addr)
	}
}
