package throttle_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// queue is a listener whose connections have the addresses that the test chooses.
type queue struct {
	net.Listener
	from []string
}

func (q *queue) Accept() (net.Conn, error) {
	if len(q.from) == 0 {
		return nil, errors.New("too many open files")
	}
	c := &peer{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(q.from[0]))}
	q.from = q.from[1:]
	return c, nil
}

type peer struct {
	net.Conn
	addr   net.Addr
	closed int
}

func (p *peer) RemoteAddr() net.Addr { return p.addr }
func (p *peer) Close() error         { p.closed++; return nil }

// accept accepts connections from the addresses, in order.
func accept(t *testing.T, cs *throttle.Connections, from ...string) []*throttle.Conn {
	t.Helper()
	l := cs.Listen(&queue{from: from})
	var conns []*throttle.Conn
	for range from {
		time.Sleep(time.Millisecond) //nolint:forbidigo // one must be older than the next
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c.(*throttle.Conn))
	}
	return conns
}

func displaced(conns []*throttle.Conn) (which []int) {
	for i, c := range conns {
		if c.Displaced() {
			which = append(which, i)
		}
	}
	return which
}

func TestConnections_Full_WhoGoes(t *testing.T) {
	t.Parallel()
	const a, b, lan6, other6 = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::ffff:2]:1"
	const far, far2 = "198.51.100.1:1", "203.0.113.1:1"
	verify := func(c []*throttle.Conn, which ...int) {
		for _, i := range which {
			c[i].Verified()
		}
	}
	idle := func(cs *throttle.Connections, c []*throttle.Conn, which ...int) {
		for _, i := range which {
			time.Sleep(time.Millisecond) //nolint:forbidigo // one must be idle for longer than the next
			cs.Follow(c[i], http.StateActive)
			c[i].Verified()
			cs.Follow(c[i], http.StateIdle)
		}
	}
	for name, c := range map[string]struct {
		from []string
		do   func(cs *throttle.Connections, c []*throttle.Conn)
		next []string
		want []int
	}{
		"room is left":      {from: []string{a, a, a}, next: []string{a}},
		"one alone":         {from: []string{a, a, a, a}, next: []string{a, b}, want: []int{0, 1}},
		"the greediest":     {from: []string{b, a, a, a}, next: []string{b}, want: []int{1}},
		"equal: the oldest": {from: []string{b, a, b, a}, next: []string{a}, want: []int{0}},
		"a /64 is one":      {from: []string{b, lan6, other6, a}, next: []string{a}, want: []int{1}},
		"a /48 is one":      {from: []string{b, b, "[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", "[2001:db8:0:3::1]:1"}, next: []string{a}, want: []int{0, 2}},
		"delivers: is spared": {from: []string{a, "198.51.100.1:1", b, b}, do: func(_ *throttle.Connections, c []*throttle.Conn) {
			c[2].Requested(netip.MustParseAddr("192.0.2.2"))
			c[2].Verified()
			c[2].Delivered()
			_ = c[2].Close()
		}, next: []string{b, b}, want: []int{0}},
		"delivers: up to half": {from: []string{a, b, b, b}, do: func(_ *throttle.Connections, c []*throttle.Conn) { c[1].Delivered() }, next: []string{a}, want: []int{1}},
		"delivers: half together": {from: []string{"192.0.2.1:1", far, far, far2}, do: func(_ *throttle.Connections, c []*throttle.Conn) {
			c[1].Delivered()
			c[3].Delivered()
		}, next: []string{a}, want: []int{1}},
		"stalled before young": {from: []string{a, b, b, b}, do: func(_ *throttle.Connections, c []*throttle.Conn) {
			for i := range 2 {
				c[i].Requested(netip.MustParseAddrPort([]string{a, b}[i]).Addr())
			}
			time.Sleep(time.Second) //nolint:forbidigo // a connection without progress for a second is stalled
			c[1].Requested(netip.MustParseAddr("192.0.2.2"))
			c[2].Requested(netip.MustParseAddr("192.0.2.2"))
			c[3].Requested(netip.MustParseAddr("192.0.2.2"))
		}, next: []string{a}, want: []int{0}},
		"stalled before young, though it delivers": {from: []string{a, far, far, far}, do: func(_ *throttle.Connections, c []*throttle.Conn) {
			c[0].Delivered()
			c[0].Requested(netip.MustParseAddr("192.0.2.1"))
			time.Sleep(time.Second) //nolint:forbidigo // a connection without progress for a second is stalled
			for _, young := range c[1:] {
				young.Requested(netip.MustParseAddr("198.51.100.1"))
			}
		}, next: []string{far2}, want: []int{0}},
		"a closed one is nobody": {from: []string{a, a, a, a}, do: func(_ *throttle.Connections, c []*throttle.Conn) { _ = c[0].Close(); _ = c[0].Close() }, next: []string{b}},
		"one that moves stays":   {from: []string{a, a, a, a}, do: func(_ *throttle.Connections, c []*throttle.Conn) { c[0].Progressed() }, next: []string{b}, want: []int{1}},
		"verified counts not":    {from: []string{a, a, a, b}, do: func(_ *throttle.Connections, c []*throttle.Conn) { verify(c, 0, 1, 2) }, next: []string{a}, want: []int{3}},
		"idle before at work":    {from: []string{a, a, a, b}, do: func(cs *throttle.Connections, c []*throttle.Conn) { idle(cs, c, 3) }, next: []string{a}, want: []int{3}},
		"the longest idle":       {from: []string{a, a, b, b}, do: func(cs *throttle.Connections, c []*throttle.Conn) { idle(cs, c, 3, 1) }, next: []string{a}, want: []int{3}},
		"asks again: at work": {from: []string{a, b, b, b}, do: func(cs *throttle.Connections, c []*throttle.Conn) {
			idle(cs, c, 0, 1)
			cs.Follow(c[0], http.StateActive)
		}, next: []string{a}, want: []int{1}},
		"silent for a second": {from: []string{a, b, b, b}, do: func(cs *throttle.Connections, c []*throttle.Conn) {
			c[1].Requested(netip.MustParseAddr("192.0.2.2"))
			c[2].Requested(netip.MustParseAddr("192.0.2.2"))
			time.Sleep(time.Second) //nolint:forbidigo // a connection is not closed within its first second
		}, next: []string{a}, want: []int{0}},
		"forwarded for another": {from: []string{b, a, a, a}, do: func(_ *throttle.Connections, c []*throttle.Conn) {
			c[2].Requested(netip.MustParseAddr("192.0.2.2"))
			c[3].Requested(netip.MustParseAddr("192.0.2.2"))
		}, next: []string{a}, want: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cs := throttle.NewConnections(4, slog.New(slog.DiscardHandler))
				conns := accept(t, cs, c.from...)
				if c.do != nil {
					c.do(cs, conns)
				}
				accept(t, cs, c.next...)
				if got := displaced(conns); !slices.Equal(got, c.want) {
					t.Errorf("displaced %v, want %v", got, c.want)
				}
				if open, _, n := cs.Count(); open > 4 || int(n) != len(c.want) {
					t.Errorf("%d are open and %d displaced, want at most 4 and %d", open, n, len(c.want))
				}
				for i, conn := range conns {
					if closed := conn.Conn.(*peer).closed > 0; conn.Displaced() && !closed {
						t.Errorf("%d lost its place and is not closed", i)
					}
				}
			})
		})
	}
}

// If every connection processes a verified request, the server closes a new connection.
func TestConnections_AllVerified_NewOneRefused(t *testing.T) {
	t.Parallel()
	cs := throttle.NewConnections(2, slog.New(slog.DiscardHandler))
	conns := accept(t, cs, "192.0.2.1:1", "192.0.2.1:2")
	conns[0].Verified()
	conns[1].Verified()
	if c, err := cs.Listen(&queue{from: []string{"192.0.2.2:1"}}).Accept(); err == nil {
		t.Errorf("accepted %v, want it closed", c.RemoteAddr())
	}
	if got := displaced(conns); len(got) > 0 {
		t.Errorf("displaced %v, want none", got)
	}
}

// A connection that lost its slot or was closed never frees a second slot.
func TestConnections_LeavesOnce(t *testing.T) {
	t.Parallel()
	cs := throttle.NewConnections(2, slog.New(slog.DiscardHandler))
	gone := accept(t, cs, "192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3")[0]
	gone.Verified()
	gone.Progressed()
	gone.Requested(netip.MustParseAddr("192.0.2.9"))
	_ = gone.Close()
	if open, unproven, _ := cs.Count(); open != 2 || unproven != 2 {
		t.Errorf("%d are open, %d of them unproven; want 2 and 2", open, unproven)
	}
}

// The server logs errors of Accept, but not every one.
func TestConnections_AcceptFails_Warned(t *testing.T) {
	t.Parallel()
	var said counter
	cs := throttle.NewConnections(2, slog.New(slog.NewTextHandler(&said, nil)))
	l := cs.Listen(&queue{})
	for range 3 {
		if _, err := l.Accept(); err == nil {
			t.Error("accepted nothing, without an error")
		}
	}
	if said != 1 {
		t.Errorf("logged %d times, want once", said)
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c++
	return len(p), nil
}
