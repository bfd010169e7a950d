package throttle

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Conn is a connection that has a place among [Connections]. The methods of a nil one do nothing.
type Conn struct {
	net.Conn
	cs   *Connections
	peer netip.Addr
	head head

	// cs.mu guards the fields below. since is when the connection last made progress.
	displaced bool
	since     time.Time
	// place is its index among the open connections.
	place int
	// sender is the sender of the last request. network counts the connection while it is unproven, and is nil
	// otherwise.
	sender  netip.Addr
	network *network
	// rests is set between two requests and before the first one; requested is set from the first one on.
	rests, requested bool
}

// change runs f with cs.mu held, unless c has lost its place.
func (c *Conn) change(f func()) {
	if c == nil {
		return
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	if c.open() {
		f()
	}
}

// open reports whether c has its place. c.cs.mu is held.
func (c *Conn) open() bool { return c.place < len(c.cs.open) && c.cs.open[c.place] == c }

// Requested records that addr has sent the head of a request. The connection counts against its network until the
// request is verified.
func (c *Conn) Requested(addr netip.Addr) {
	c.change(func() {
		c.requested = true
		c.suspect(addr)
	})
}

// Progressed records that a part of the request has arrived: the connection is not stalled.
func (c *Conn) Progressed() { c.change(func() { c.since = time.Now() }) }

// Verified records that the request is authentic. Until the next request the connection counts against no network, and
// until the answer it is not displaced.
func (c *Conn) Verified() { c.change(c.prove) }

// Delivered records that the request brought something that only its network can send: an event, or the request of a
// signed-in user. Such networks are spared when all places are taken.
func (c *Conn) Delivered() {
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

// suspect counts c among the unproven connections of addr's network. c.cs.mu is held.
func (c *Conn) suspect(addr netip.Addr) {
	c.prove()
	c.sender, c.since = Network(addr), time.Now()
	c.network = countUnproven(c.cs.networks, c.sender)
	countUnproven(c.cs.wide, wide(c.sender))
}

// prove removes c from the unproven connections. c.cs.mu is held.
func (c *Conn) prove() {
	c.rests = false
	if c.network != nil {
		c.network = nil
		discount(c.cs.networks, c.sender)
		discount(c.cs.wide, wide(c.sender))
	}
}

// leave gives up c's place to the connection at the last one. c.cs.mu is held, and c is open.
func (c *Conn) leave() {
	c.prove()
	last := len(c.cs.open) - 1
	c.cs.open[c.place] = c.cs.open[last]
	c.cs.open[c.place].place = c.place
	c.cs.open[last] = nil
	c.cs.open = c.cs.open[:last]
}

type connKey struct{}

// withConn returns ctx with c in it, for [ConnOf]. It is the ConnContext of the server.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf returns the connection of a request, or nil if it has no place among [Connections].
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
