package throttle

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Connections bounds how many connections a server holds, and shares them out among senders. Make one with
// [NewConnections]; it is safe for concurrent use.
//
// Nobody is turned away. When all places are taken, a new connection takes that of another: the sender with most
// unproven connections loses the one that has stood still longest. So a sender has what the others leave, and in a
// crowd no more than each of them. A connection is unproven until its request is verified: whoever cannot sign
// counts, and the deliveries of many senders behind one load balancer do not count against each other.
type Connections struct {
	most                 int
	log                  *slog.Logger
	toldFull, toldFailed rate.Sometimes

	mu   sync.Mutex
	open int
	// unproven holds the connections of each sender, proven those of all, each with the one that has stood still
	// longest in front.
	unproven  map[netip.Addr]*list.List
	proven    *list.List
	displaced int64
}

// tellEvery keeps what strangers can bring about from filling the log.
const tellEvery = 10 * time.Second

// NewConnections returns room for most connections. It warns on log of what is displaced and what cannot be accepted.
func NewConnections(most int, log *slog.Logger) *Connections {
	return &Connections{
		most: most, log: log, toldFull: rate.Sometimes{Interval: tellEvery}, toldFailed: rate.Sometimes{Interval: tellEvery},
		unproven: map[netip.Addr]*list.List{}, proven: list.New(),
	}
}

// Listen returns l with its connections counted among cs. Each is a [*Conn].
func (cs *Connections) Listen(l net.Listener) net.Listener { return &listener{l, cs} }

// Count returns how many connections are open, of them how many are unproven, and how many were ever displaced.
func (cs *Connections) Count() (open, unproven int, displaced int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open, cs.open - cs.proven.Len(), cs.displaced
}

type listener struct {
	net.Listener
	cs *Connections
}

func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			l.cs.toldFailed.Do(func() { l.cs.log.Warn("no connection can be accepted", "error", err) })
		}
		return nil, err
	}
	return l.cs.enter(inner), nil
}

func (cs *Connections) enter(inner net.Conn) *Conn {
	c := &Conn{Conn: inner, cs: cs}
	peer, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // what is no address shares one
	cs.mu.Lock()
	var gone *Conn
	if cs.open >= cs.most {
		gone = cs.displace()
	}
	cs.open++
	c.unproven(Network(peer.Addr().Unmap().WithZone("")))
	cs.mu.Unlock()
	if gone != nil {
		_ = gone.Conn.Close()
		cs.toldFull.Do(func() {
			cs.log.Warn("all connections are taken; new ones take the places of the sender that has most", "most", cs.most, "sender", gone.sender)
		})
	}
	return c
}

// displace takes one connection out. cs.mu is held.
func (cs *Connections) displace() *Conn {
	var greediest *list.List
	for _, l := range cs.unproven {
		if greediest == nil || greedier(l, greediest) > 0 {
			greediest = l
		}
	}
	if greediest == nil {
		greediest = cs.proven // the one that delivered longest ago, most likely an idle one
	}
	c := greediest.Front().Value.(*Conn)
	c.leave()
	c.displaced = true
	cs.displaced++
	return c
}

// greedier compares two senders: who has more goes first, then whose has stood still longer.
func greedier(a, b *list.List) int {
	return cmp.Or(cmp.Compare(a.Len(), b.Len()), b.Front().Value.(*Conn).since.Compare(a.Front().Value.(*Conn).since))
}

// Conn is a connection that has a place among [Connections]. A nil one has none, and nothing to tell.
type Conn struct {
	net.Conn
	cs *Connections

	// All of this is guarded by cs.mu.
	sender    netip.Addr
	since     time.Time
	in        *list.List
	place     *list.Element
	displaced bool
}

// Asks tells that a request of addr has begun: the connection counts against it until the request is verified.
func (c *Conn) Asks(addr netip.Addr) {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if sender := Network(addr); c.in == c.cs.proven || c.in != nil && c.sender != sender {
		c.unproven(sender)
	}
}

// Moves tells that the request comes on well. Its connection goes behind those that stand still.
func (c *Conn) Moves() {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if c.in != nil {
		c.since = time.Now()
		c.in.MoveToBack(c.place)
	}
}

// Verified tells that the request is authentic. The connection counts against nobody until the next one.
func (c *Conn) Verified() {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if c.in != nil {
		c.put(c.cs.proven)
	}
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
	c.cs.mu.Lock()
	c.leave()
	c.cs.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is what net/http ends an answer with: without it, who reads to the end waits.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// unproven enters c among the sender's. c.cs.mu is held.
func (c *Conn) unproven(sender netip.Addr) {
	l := c.cs.unproven[sender]
	if l == nil {
		l = list.New()
		c.cs.unproven[sender] = l
	}
	c.put(l)
	c.sender = sender
}

// put moves c to the back of l. c.cs.mu is held.
func (c *Conn) put(l *list.List) {
	c.takeOut()
	c.in, c.place, c.since = l, l.PushBack(c), time.Now()
}

// leave gives c's place up, once. c.cs.mu is held.
func (c *Conn) leave() {
	if c.in != nil {
		c.takeOut()
		c.in = nil
		c.cs.open--
	}
}

func (c *Conn) takeOut() {
	if c.in == nil {
		return
	}
	c.in.Remove(c.place)
	if c.in.Len() == 0 && c.in != c.cs.proven {
		delete(c.cs.unproven, c.sender)
	}
}

type connKey struct{}

// WithConn returns ctx with c in it, for [ConnOf]. It is made to be the ConnContext of an http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf returns the connection that a request came on, nil where it came on none of [Connections].
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
