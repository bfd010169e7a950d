package ingress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// dialFrom opens a connection from a loopback address and sends text. Unlike dial, it does not fail if the server
// closes the connection at once.
func (b *bench) dialFrom(t *testing.T, from, text string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text)
	return conn
}

// deliverAll sends n valid deliveries, each on its own connection from the address. The answer to each must be 2xx.
func (b *bench) deliverAll(t *testing.T, from, name string, n, size int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, network, addr)
	}}}
	for i := range n {
		body := fmt.Sprintf(`{"id":"%s%d","type":"paid","pad":"%s"}`, name, i, strings.Repeat("x", size))
		resp, err := client.Do(request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body), "X-Sig", sign([]byte(body))))
		if err != nil {
			t.Errorf("valid delivery %d: %v", i, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("valid delivery %d: got %d, want 202", i, resp.StatusCode)
		}
	}
	if got := b.count(t, fmt.Sprintf(`select count(*) from receipts where event_id like '%s%%'`, name)); got != n {
		t.Errorf("%d receipts of %d valid deliveries", got, n)
	}
}

// lines is a log that a test can read while the server writes to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

const stalledBody = "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: 00\r\nContent-Length: 100\r\n\r\n"

// Even if more bodies are stalled than deliveries may be processed concurrently, other senders are not affected.
func TestSenders_StalledBodies_ValidTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 1060 {
		b.dialFrom(t, "127.0.0.2", stalledBody)
	}
	b.deliverAll(t, "127.0.0.1", "e", 20, 10)
}

// All requests come from one address, as they do behind a load balancer that is not configured as trusted.
func TestSenders_StalledBodies_SameAddress_ValidTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Connections, c.Limits.InFlight = 32, 1 })
	for range 100 {
		b.dialFrom(t, "127.0.0.1", stalledBody)
	}
	b.deliverAll(t, "127.0.0.1", "e", 20, 10)
}

// The server closes silent connections of several addresses in favor of connections with requests, and logs it.
func TestSenders_IdleConnections_Displaced(t *testing.T) {
	t.Parallel()
	var said lines
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Limits.Connections = 64
		c.Log = slog.New(slog.NewTextHandler(&said, nil))
	})
	var idle []net.Conn
	for i := range 300 {
		idle = append(idle, b.dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i%4), ""))
	}
	b.deliverAll(t, "127.0.0.1", "e", 20, 10)
	for _, conn := range idle[:200] { // at most 64 of the 300 connections have a slot
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Fatalf("an old idle connection: %v, want it closed", err)
		}
	}
	if n := strings.Count(said.String(), "all connections are taken"); n == 0 || n > 20 {
		t.Errorf("logged %d times, want a few times:\n%s", n, said.String())
	}
}

// Nearly all senders are hostile, and they use a few addresses. The server accepts each valid delivery, small or
// large.
func TestSenders_Hostile_EachValidDeliveryTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Limits.Connections, c.Limits.Bodies = 256, 8<<20
		// Long timeouts: the server must not depend on them, because slow senders may continue while there are free
		// slots.
		c.Limits.Header, c.Limits.Read, c.Limits.Total = time.Minute, time.Minute, 2*time.Minute
		s.BodyLimit = 2 << 20
	})
	stop := b.attack(t)
	b.deliverAll(t, "127.0.0.1", "small", 20, 10)
	b.deliverAll(t, "127.0.0.1", "middle", 10, 100<<10)
	b.deliverAll(t, "127.0.0.1", "large", 3, 1<<20)
	stop()
}

// attack opens 500 connections from four addresses, and repeats this until stop is called. Some send slowly, some
// announce a body without sending it, some send too much, and some send nothing.
func (b *bench) attack(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var hostile sync.WaitGroup
	// The rates are below the capacity of the two cores that the test shares with the server: 100 connections and 16
	// MB per second.
	again, sent := rate.NewLimiter(100, 500), rate.NewLimiter(16e6, 16e6)
	chunk := bytes.Repeat([]byte("x"), 32<<10)
	attack := func(from, head string, each func(net.Conn) bool) {
		hostile.Go(func() {
			for again.Wait(ctx) == nil {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(b.url, "http://"))
				if err != nil {
					continue
				}
				ends := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, head)
				for ctx.Err() == nil && each(conn) {
				}
				ends()
				_ = conn.Close()
			}
		})
	}
	huge := "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: 00\r\nContent-Length: 2000000\r\n\r\n"
	answered := func(conn net.Conn) bool { _, err := conn.Read(make([]byte, 512)); return err == nil }
	creep := func(conn net.Conn) bool {
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 512)); !isTimeout(err) {
			return false
		}
		_, err := conn.Write([]byte("x"))
		return err == nil
	}
	fill := func(conn net.Conn) bool {
		_ = sent.WaitN(ctx, len(chunk))
		_, err := conn.Write(chunk)
		return err == nil
	}
	for i := range 125 {
		from := fmt.Sprintf("127.0.0.%d", 2+i%4)
		attack(from, huge, creep)
		attack(from, huge, fill)
		attack(from, huge+strings.Repeat("x", 60_000), answered)
		attack(from, "", answered)
	}
	return func() {
		cancel()
		hostile.Wait()
	}
}

// After a verified delivery, the sender keeps its connection. A duplicate under an unsigned ID does not have this
// effect, because it may be a replay by an attacker.
func TestSenders_Refused_ConnectionClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.Provider.Contract.Identity = webhook.ByBytes })
	body := `{"id":"e1"}`
	for _, c := range []struct {
		path, sig, unsignedID string
		status                int
		closed                bool
	}{
		{"/hooks/shop", "00", "", 401, true},
		{"/hooks/other", "00", "", 404, true},
		{"/else", "00", "", 404, true},
		{"/hooks/shop", sign([]byte(body)), "", 202, false},
		{"/hooks/shop", sign([]byte(body)), "", 200, false},
		{"/hooks/shop", sign([]byte(body)), "e2", 202, false},
		{"/hooks/shop", sign([]byte(body)), "e2", 200, true},
	} {
		r := request(t, http.MethodPost, b.url+c.path, strings.NewReader(body), "X-Sig", c.sig)
		if c.unsignedID != "" {
			r.Header.Set("X-Id", c.unsignedID)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || resp.Close != c.closed {
			t.Errorf("%s: got %d, closed %t; want %d, %t", c.path, resp.StatusCode, resp.Close, c.status, c.closed)
		}
	}
}

// A server that shuts down closes each connection after its answer.
func TestSenders_Leaving_ConnectionClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Leaving = func() bool { return true } })
	body := `{"id":"e1"}`
	resp, err := http.DefaultTransport.RoundTrip(request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body), "X-Sig", sign([]byte(body))))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || !resp.Close {
		t.Errorf("got %d, closed %t; want 202 and closed", resp.StatusCode, resp.Close)
	}
}

// Behind an untrusted proxy all senders look like one. The server logs this once, and not for a trusted proxy.
func TestSender_UntrustedProxy_ToldOnce(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string][]netip.Prefix{"untrusted": nil, "trusted": {netip.MustParsePrefix("127.0.0.0/8")}} {
		var said lines
		b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
			c.Limits.TrustedProxies = trusted
			c.Log = slog.New(slog.NewTextHandler(&said, nil))
		})
		for i := range 3 {
			b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i), "X-Forwarded-For", "203.0.113.7")
		}
		want := 1
		if trusted != nil {
			want = 0
		}
		if n := strings.Count(said.String(), "ingress.limits.trusted_proxies"); n != want {
			t.Errorf("%s: logged %d times, want %d\n%s", name, n, want, said.String())
		}
	}
}
