// Package handover keeps listeners open while the servers behind them are replaced. A new server opens the addresses of
// the old one, and accepts their connections when it is ready. No connection is refused.
package handover

import (
	"context"
	"net"
	"sync"
)

// Listeners are the open listeners of a process, by address. The zero value is ready to use.
type Listeners struct {
	mu   sync.Mutex
	open map[string]*shared
}

// shared is a listener with several users. Each connection goes to one of them.
type shared struct {
	listener net.Listener
	users    int
	accepted chan result
	closed   chan struct{}
}

// result is the result of one call of Accept.
type result struct {
	conn net.Conn
	err  error
}

// Group is the listeners of one server among several. Its listeners accept connections between Start and Leave.
type Group struct {
	of            *Listeners
	started, left chan struct{}
	start, leave  sync.Once
}

// Group returns the listeners of a new server.
func (l *Listeners) Group() *Group {
	return &Group{of: l, started: make(chan struct{}), left: make(chan struct{})}
}

// Start lets the listeners accept connections.
func (g *Group) Start() { g.start.Do(func() { close(g.started) }) }

// Leave ends the acceptance of connections. Accept then blocks until its listener is closed, so that the server can
// finish its open connections.
func (g *Group) Leave() { g.leave.Do(func() { close(g.left) }) }

// Listen returns a listener at a TCP address. If another group has opened the address, both share it, and each
// connection goes to one of them. The address is closed together with its last listener.
func (g *Group) Listen(ctx context.Context, address string) (net.Listener, error) {
	l := g.of
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open[address]
	if s == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		s = &shared{listener: listener, accepted: make(chan result), closed: make(chan struct{})}
		go s.accept()
		if l.open == nil {
			l.open = map[string]*shared{}
		}
		l.open[address] = s
	}
	s.users++
	return &user{group: g, shared: s, address: address, closed: make(chan struct{})}, nil
}

// accept passes connections, and failures such as too many open files, to the users until the listener is closed.
func (s *shared) accept() {
	for {
		conn, err := s.listener.Accept()
		select {
		case s.accepted <- result{conn, err}:
		case <-s.closed:
			if err == nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// release closes the listener after its last user.
func (l *Listeners) release(address string, s *shared) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	delete(l.open, address)
	close(s.closed)
	return s.listener.Close()
}

// user is one listener of a group.
type user struct {
	group   *Group
	shared  *shared
	address string
	once    sync.Once
	closed  chan struct{}
}

// Accept returns the next connection, or [net.ErrClosed] after Close.
func (u *user) Accept() (net.Conn, error) {
	select {
	case <-u.group.started:
	case <-u.closed:
		return nil, net.ErrClosed
	}
	select {
	case <-u.group.left:
		<-u.closed
		return nil, net.ErrClosed
	case <-u.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case r := <-u.shared.accepted:
		return r.conn, r.err
	case <-u.group.left:
		<-u.closed
		return nil, net.ErrClosed
	case <-u.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It closes the address if no other listener uses it.
func (u *user) Close() (err error) {
	u.once.Do(func() {
		close(u.closed)
		err = u.group.of.release(u.address, u.shared)
	})
	return err
}

// Addr returns the address of the listener.
func (u *user) Addr() net.Addr { return u.shared.listener.Addr() }
