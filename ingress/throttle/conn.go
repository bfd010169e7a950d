package throttle

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Conn is a connection that [Connections] accepted. The methods of a nil Conn do nothing.
type Conn struct {
	net.Conn
	cs   *Connections
	peer netip.Addr
	head head

	// cs.mu guards the fields below. since is the time at which bytes last arrived, or at which the connection became
	// idle.
	displaced bool
	since     time.Time
	// place is the index of the connection in cs.open.
	place int
	// sender is the address that sent the last request. network is the network that counts the connection as unproven,
	// or nil.
	sender  netip.Addr
	network *network
	// rests is set while no request is in progress. requested is set after the first request has begun.
	rests, requested bool
}

// change calls f while cs.mu is locked. It does nothing if c is closed.
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

// open reports whether c is not closed. The caller has locked c.cs.mu.
func (c *Conn) open() bool { return c.place < len(c.cs.open) && c.cs.open[c.place] == c }

// Requested records that addr has sent the head of a request. The network of addr counts the connection as unproven
// until the request is verified.
func (c *Conn) Requested(addr netip.Addr) {
	c.change(func() {
		c.requested = true
		c.suspect(addr)
	})
}

// Progressed records that a part of the request has arrived, so the connection is not stalled.
func (c *Conn) Progressed() { c.change(func() { c.since = time.Now() }) }

// Verified records that the request is authentic. The connection is then not unproven until its next request, and it is
// not closed to make room before the answer.
func (c *Conn) Verified() { c.change(c.prove) }

// Delivered records that the network of the sender is trustworthy: the request contained a verified event, or came from
// a signed-in user. When all connections are in use, connections from such networks are closed last.
func (c *Conn) Delivered() {
	c.change(func() { c.cs.delivered.Add(c.sender, struct{}{}) })
}

// Displaced reports whether the connection was closed to make room for a new connection.
func (c *Conn) Displaced() bool {
	if c == nil {
		return false
	}
	c.cs.mu.Lock()
	defer c.cs.mu.Unlock()
	return c.displaced
}

// Close closes the connection and removes it from [Connections]. It may be called twice.
func (c *Conn) Close() error {
	c.change(c.leave)
	return c.Conn.Close()
}

// CloseWrite closes the sending half of the connection. net/http calls it, so that a client that reads to the end of
// the stream need not wait.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// suspect adds c to the unproven connections of addr's network. The caller has locked c.cs.mu.
func (c *Conn) suspect(addr netip.Addr) {
	c.prove()
	c.sender, c.since = Network(addr), time.Now()
	c.network = countUnproven(c.cs.networks, c.sender)
	countUnproven(c.cs.wide, wide(c.sender))
}

// prove removes c from the unproven connections. The caller has locked c.cs.mu.
func (c *Conn) prove() {
	c.rests = false
	if c.network != nil {
		c.network = nil
		discount(c.cs.networks, c.sender)
		discount(c.cs.wide, wide(c.sender))
	}
}

// leave removes c from cs.open, and moves the last connection to its index. The caller has locked c.cs.mu, and c is
// open.
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

// ConnOf returns the connection of a request, or nil if [Connections] did not accept it.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
