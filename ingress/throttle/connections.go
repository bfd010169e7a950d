package throttle

import (
	"cmp"
	"context"
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

// Connections bounds how many connections a server holds, and shares them out among senders. Make one with
// [NewConnections]; it is safe for concurrent use. The server's ConnState and ConnContext must be [Connections.State]
// and [WithConn].
//
// When all places are taken, a new connection takes the place of another. The longest idle one goes first: between
// two requests, or a second after it was opened without one. If no connection is idle, the sender with the most
// unproven connections loses the one that has stood still longest. So a sender has what the others leave, and in a
// crowd no more than each of them. A whole /24 or /48 has no more than another one. A network that has delivered an
// event lately is spared while it has no more than half of all places. A connection is unproven until its request is
// verified: the deliveries of many senders behind one load balancer do not count against each other. A verified
// request is never cut: where all are, the new connection is refused.
type Connections struct {
	most                 int
	log                  *slog.Logger
	toldFull, toldFailed rate.Sometimes

	mu   sync.Mutex
	open map[*Conn]struct{}
	// unproven counts the unproven connections of each network, wide those of each wide one.
	unproven, wide map[netip.Addr]int
	// delivered are the networks that have delivered lately.
	delivered *simplelru.LRU[netip.Addr, struct{}]
	displaced int64
}

const (
	// tellEvery keeps what strangers can bring about from filling the log.
	tellEvery = 10 * time.Second
	// greeting is what a new connection gets to send its first request: a few round trips.
	greeting = time.Second
	// networksRemembered bounds the networks that have delivered.
	networksRemembered = 1024
)

// NewConnections returns room for most connections. It warns on log when connections are displaced or cannot be
// accepted.
func NewConnections(most int, log *slog.Logger) *Connections {
	delivered, _ := simplelru.NewLRU[netip.Addr, struct{}](networksRemembered, nil) // fails without a size only
	return &Connections{
		most: most, log: log, toldFull: rate.Sometimes{Interval: tellEvery},
		toldFailed: rate.Sometimes{Interval: tellEvery},
		open:       map[*Conn]struct{}{}, unproven: map[netip.Addr]int{}, wide: map[netip.Addr]int{},
		delivered: delivered,
	}
}

// Listen returns l with its connections counted among cs. Each is a [*Conn].
func (cs *Connections) Listen(l net.Listener) net.Listener { return &listener{l, cs} }

// Count returns how many connections are open, how many of them are unproven, and how many were ever displaced.
func (cs *Connections) Count() (open, unproven int, displaced int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, n := range cs.unproven {
		unproven += n
	}
	return len(cs.open), unproven, cs.displaced
}

// Crowded reports whether three quarters of the places are taken. A server then keeps no connection after its answer,
// so that clients connect anew and nothing has to be displaced.
func (cs *Connections) Crowded() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return 4*len(cs.open) > 3*cs.most
}

// State follows what the server does with c. It is made to be the ConnState of an http.Server.
func (cs *Connections) State(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	switch {
	case !ok:
	case state == http.StateActive:
		conn.Asks(conn.peer)
	case state == http.StateIdle:
		conn.head = head{blank: true}
		conn.change(func() { conn.since, conn.rests = time.Now(), true }) // it counts as before
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
				l.cs.toldFailed.Do(func() { l.cs.log.Warn("no connection can be accepted", "error", err) })
			}
			return nil, err
		}
		if c, ok := l.cs.enter(inner); ok {
			return c, nil
		}
		_ = inner.Close()
	}
}

// enter gives inner a place, and reports false if no place can be had.
func (cs *Connections) enter(inner net.Conn) (*Conn, bool) {
	addr, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // connections without an address share one
	c := &Conn{Conn: inner, cs: cs, peer: addr.Addr().Unmap().WithZone(""), head: head{blank: true}}
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
	cs.open[c] = struct{}{}
	c.suspect(c.peer)
	c.rests = true
	cs.mu.Unlock()
	if gone != nil {
		_ = gone.Conn.Close()
		cs.toldFull.Do(func() {
			cs.log.Warn("all connections are taken: each new one closes another", "most", cs.most, "sender", gone.peer)
		})
	}
	return c, true
}

// victim returns the connection whose place a new one takes, or nil. cs.mu is held.
func (cs *Connections) victim() *Conn {
	now, greed := time.Now(), map[netip.Addr]int{}
	var idlest, greediest *Conn
	for c := range cs.open {
		switch {
		case c.rests && (c.asked || now.Sub(c.since) >= greeting):
			if idlest == nil || c.since.Before(idlest.since) {
				idlest = c
			}
		case c.unproven:
			if _, known := greed[c.sender]; !known {
				greed[c.sender] = cs.greed(c.sender)
			}
			if greediest == nil || cmp.Or(cmp.Compare(greed[c.sender], greed[greediest.sender]),
				greediest.since.Compare(c.since)) > 0 {
				greediest = c
			}
		}
	}
	return cmp.Or(idlest, greediest)
}

// greed ranks a network by the unproven connections of its wide network, and then by its own. cs.mu is held.
func (cs *Connections) greed(network netip.Addr) int {
	n := cs.unproven[network]
	if 2*n <= cs.most && cs.delivered.Contains(network) {
		return 0
	}
	return cs.wide[wide(network)]*cs.most + n
}

// wide returns the /24 or /48 of a network. One sender may have many networks in it.
func wide(network netip.Addr) netip.Addr {
	bits := 24
	if network.Is6() {
		bits = 48
	}
	if p, err := network.Prefix(bits); err == nil {
		return p.Addr()
	}
	return network
}

// Conn is a connection that has a place among [Connections]. A nil one is of no use to anybody: its methods do nothing.
type Conn struct {
	net.Conn
	cs   *Connections
	peer netip.Addr
	head head

	// All of this is guarded by cs.mu. since is when the connection last moved.
	displaced bool
	since     time.Time
	// sender is the network that it counts against while it is unproven.
	sender   netip.Addr
	unproven bool
	// rests is set between two requests, and before the first one; asked is set from the first one on.
	rests, asked bool
}

// change runs f where c still has its place, with cs.mu held.
func (c *Conn) change(f func()) {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if _, open := c.cs.open[c]; open {
		f()
	}
}

// Asks tells that addr has sent the head of a request: the connection counts against it until the request is verified.
func (c *Conn) Asks(addr netip.Addr) {
	c.change(func() {
		c.asked = true
		c.suspect(addr)
	})
}

// Moves tells that the request comes on well: its connection does not stand still.
func (c *Conn) Moves() { c.change(func() { c.since = time.Now() }) }

// Verified tells that the request is authentic. Until the next one the connection counts against nobody, and until the
// answer it is not displaced.
func (c *Conn) Verified() { c.change(c.prove) }

// Delivers tells that the request has brought an event. The networks of such connections are spared when all places are
// taken.
func (c *Conn) Delivers() {
	c.change(func() { c.cs.delivered.Add(c.sender, struct{}{}) })
}

// Displaced reports whether the connection was closed to make room for another.
func (c *Conn) Displaced() bool {
	if c == nil {
		return false
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	return c.displaced
}

// Close gives the place back. It may be called twice.
func (c *Conn) Close() error {
	c.change(c.leave)
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer: a client that reads to the end would wait otherwise.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// suspect counts c, which is at work, among the unproven connections of addr's network. c.cs.mu is held.
func (c *Conn) suspect(addr netip.Addr) {
	c.prove()
	c.sender, c.since, c.unproven = Network(addr), time.Now(), true
	c.cs.unproven[c.sender]++
	c.cs.wide[wide(c.sender)]++
}

// prove takes c, which is at work, out of the unproven connections. c.cs.mu is held.
func (c *Conn) prove() {
	c.rests = false
	if c.unproven {
		c.unproven = false
		takeOff(c.cs.unproven, c.sender, 1)
		takeOff(c.cs.wide, wide(c.sender), 1)
	}
}

// takeOff takes n off the count of key. It keeps no count of zero.
func takeOff[K comparable, N int | int64](counts map[K]N, key K, n N) {
	if counts[key] -= n; counts[key] == 0 {
		delete(counts, key)
	}
}

// leave gives up c's place. c.cs.mu is held, and c is open.
func (c *Conn) leave() {
	c.prove()
	delete(c.cs.open, c)
}

type connKey struct{}

// WithConn returns ctx with c in it, for [ConnOf]. It is made to be the ConnContext of an http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf returns the connection on which a request came, nil if it has no place among [Connections].
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
