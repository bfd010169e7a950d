// Package handover keeps listeners open while the servers behind them are replaced. A new server listens at the address
// of the old one before the old one stops, so that no connection is refused.
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

// Listen returns a listener at a TCP address. If the address is already open, both listeners accept its connections.
// The address is closed together with its last listener.
func (l *Listeners) Listen(ctx context.Context, address string) (net.Listener, error) {
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
	return &user{shared: s, of: l, address: address, closed: make(chan struct{})}, nil
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

// user is the listener of one server.
type user struct {
	shared  *shared
	of      *Listeners
	address string
	once    sync.Once
	closed  chan struct{}
}

// Accept returns the next connection, or [net.ErrClosed] after Close.
func (u *user) Accept() (net.Conn, error) {
	select {
	case <-u.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case r := <-u.shared.accepted:
		return r.conn, r.err
	case <-u.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It closes the address if no other server listens there.
func (u *user) Close() (err error) {
	u.once.Do(func() {
		close(u.closed)
		err = u.of.release(u.address, u.shared)
	})
	return err
}

// Addr returns the address of the listener.
func (u *user) Addr() net.Addr { return u.shared.listener.Addr() }
