package throttle

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

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

	mu       sync.Mutex
	open     int
	unproven int
	// senders holds the unproven connections of each sender. idle holds those between two requests, silent those that
	// have not sent one yet. In each list, the connection that has stood still longest is in front.
	senders      map[netip.Addr]*list.List
	idle, silent *list.List
	// wide counts the unproven connections of each wide network. delivered and deliveredBefore are the networks that
	// have delivered lately: the younger set becomes the older one when it is full.
	wide                       map[netip.Addr]int
	delivered, deliveredBefore map[netip.Addr]bool
	displaced                  int64
}

const (
	// tellEvery keeps what strangers can bring about from filling the log.
	tellEvery = 10 * time.Second
	// greeting is what a new connection gets to send its first request: a few round trips.
	greeting = time.Second
	// networksRemembered bounds each set of networks that have delivered.
	networksRemembered = 1024
)

// NewConnections returns room for most connections. It warns on log when connections are displaced or cannot be
// accepted.
func NewConnections(most int, log *slog.Logger) *Connections {
	return &Connections{
		most: most, log: log, toldFull: rate.Sometimes{Interval: tellEvery},
		toldFailed: rate.Sometimes{Interval: tellEvery},
		senders:    map[netip.Addr]*list.List{}, idle: list.New(), silent: list.New(), wide: map[netip.Addr]int{},
		delivered: map[netip.Addr]bool{},
	}
}

// Listen returns l with its connections counted among cs. Each is a [*Conn].
func (cs *Connections) Listen(l net.Listener) net.Listener { return &listener{l, cs} }

// Count returns how many connections are open, how many of them are unproven, and how many were ever displaced.
func (cs *Connections) Count() (open, unproven int, displaced int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open, cs.unproven, cs.displaced
}

// Crowded reports whether three quarters of the places are taken. A server then keeps no connection after its answer,
// so that clients connect anew and nothing has to be displaced.
func (cs *Connections) Crowded() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return 4*cs.open > 3*cs.most
}

// State follows what the server does with c. It is made to be the ConnState of an http.Server.
func (cs *Connections) State(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	switch {
	case !ok:
	case state == http.StateActive:
		conn.Asks(conn.peer)
	case state == http.StateIdle:
		conn.rests()
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
	if cs.open >= cs.most {
		if gone = cs.victim(); gone == nil {
			cs.mu.Unlock()
			return nil, false
		}
		gone.leave()
		gone.displaced = true
		cs.displaced++
	}
	cs.open++
	c.open = true
	c.enlist(c.peer)
	c.still, c.place = cs.silent, cs.silent.PushBack(c)
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
	idle, silent := front(cs.idle), front(cs.silent)
	if silent != nil && time.Since(silent.since) < greeting {
		silent = nil
	}
	switch {
	case idle != nil && (silent == nil || idle.since.Before(silent.since)):
		return idle
	case silent != nil:
		return silent
	}
	var greediest *list.List
	var most int
	for network, l := range cs.senders {
		n := cs.greed(network, l.Len())
		if greediest == nil || cmp.Or(cmp.Compare(n, most), front(greediest).since.Compare(front(l).since)) > 0 {
			greediest, most = l, n
		}
	}
	return front(greediest)
}

// greed ranks a network of n unproven connections by those of its wide network, and then by its own. cs.mu is held.
func (cs *Connections) greed(network netip.Addr, n int) int {
	if 2*n <= cs.most && (cs.delivered[network] || cs.deliveredBefore[network]) {
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

// front returns the first connection of l, or nil.
func front(l *list.List) *Conn {
	if l == nil || l.Len() == 0 {
		return nil
	}
	return l.Front().Value.(*Conn)
}

// Conn is a connection that has a place among [Connections]. A nil one is of no use to anybody: its methods do nothing.
type Conn struct {
	net.Conn
	cs   *Connections
	peer netip.Addr
	head head

	// All of this is guarded by cs.mu. since is when the connection last moved.
	open, displaced bool
	since           time.Time
	// share is its element among the unproven connections of sender, nil once it is verified.
	sender netip.Addr
	share  *list.Element
	// place is its element in still, which is idle, silent or nil.
	still *list.List
	place *list.Element
}

// change runs f where c still has its place, with cs.mu held.
func (c *Conn) change(f func()) {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if c.open {
		f()
	}
}

// Asks tells that addr has sent the head of a request: the connection counts against it until the request is verified.
func (c *Conn) Asks(addr netip.Addr) {
	c.change(func() {
		c.delist()
		c.enlist(addr)
	})
}

// Moves tells that the request comes on well. Its connection goes behind those that stand still.
func (c *Conn) Moves() {
	c.change(func() {
		if c.share != nil {
			c.since = time.Now()
			c.cs.senders[c.sender].MoveToBack(c.share)
		}
	})
}

// Verified tells that the request is authentic. Until the next one the connection counts against nobody, and until the
// answer it is not displaced.
func (c *Conn) Verified() { c.change(c.delist) }

// Delivers tells that the request has brought an event. The networks of such connections are spared when all places are
// taken.
func (c *Conn) Delivers() {
	c.change(func() {
		if len(c.cs.delivered) >= networksRemembered {
			c.cs.deliveredBefore, c.cs.delivered = c.cs.delivered, map[netip.Addr]bool{}
		}
		c.cs.delivered[c.sender] = true
	})
}

// rests tells that the answer has gone out, and that the connection waits for another request. It counts as before.
func (c *Conn) rests() {
	c.head = head{blank: true}
	c.change(func() {
		c.since, c.still = time.Now(), c.cs.idle
		c.place = c.still.PushBack(c)
	})
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

// enlist enters c among the unproven connections of addr's network. c.cs.mu is held.
func (c *Conn) enlist(addr netip.Addr) {
	c.sender, c.since = Network(addr), time.Now()
	l := c.cs.senders[c.sender]
	if l == nil {
		l = list.New()
		c.cs.senders[c.sender] = l
	}
	c.share = l.PushBack(c)
	c.cs.wide[wide(c.sender)]++
	c.cs.unproven++
}

// delist takes c out of all lists. c.cs.mu is held.
func (c *Conn) delist() {
	if c.still != nil {
		c.still.Remove(c.place)
		c.still = nil
	}
	if c.share == nil {
		return
	}
	l := c.cs.senders[c.sender]
	l.Remove(c.share)
	c.share = nil
	c.cs.unproven--
	if w := wide(c.sender); c.cs.wide[w] > 1 {
		c.cs.wide[w]--
	} else {
		delete(c.cs.wide, w)
	}
	if l.Len() == 0 {
		delete(c.cs.senders, c.sender)
	}
}

// leave gives up c's place. c.cs.mu is held, and c is open.
func (c *Conn) leave() {
	c.delist()
	c.open = false
	c.cs.open--
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
