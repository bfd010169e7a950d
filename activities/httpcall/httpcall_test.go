package httpcall

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// gateway forwards connections to another address. It can forget a connection: the connection stays open, and its
// data is discarded.
type gateway struct {
	net.Listener
	to       string
	forgot   atomic.Int32
	accepted atomic.Int32
}

func newGateway(t *testing.T, to string) *gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", g.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			t.Cleanup(func() { _, _ = in.Close(), out.Close() })
			g.accepted.Add(1)
			before := g.forgot.Load()
			go g.pass(in, out, before)
			go g.pass(out, in, before)
		}
	}()
	return g
}

func (g *gateway) pass(from, to net.Conn, before int32) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if g.forgot.Load() == before {
			_, _ = to.Write(buf[:n])
		}
	}
}

// An HTTP/2 connection without responses is closed. Before this check existed, each attempt used such a connection
// and timed out until the operating system closed it, long after all attempts were used up.
func TestNewClient_ConnectionForgotten_Left(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(r.ProtoMajor * 100) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	g := newGateway(t, server.Listener.Addr().String())
	client := NewClient()
	client.Transport.(unswitched).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	try := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp, err := Do(ctx, client, http.MethodPost, "https://"+g.Addr().String(), Header("", ""), []byte("{}"))
		if err == nil && resp.StatusCode != http.StatusOK {
			t.Fatalf("not HTTP/2: %s", resp.Status)
		}
		return err
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	g.forgot.Add(1)
	start := time.Now()
	for err := try(); err != nil; err = try() {
		if time.Since(start) > 3*(silentFor+signOfLife) {
			t.Fatalf("after %s: %v", time.Since(start), err)
		}
	}
	if n := g.accepted.Load(); n != 2 {
		t.Errorf("%d connections, want a second one", n)
	}
}

// The size of response headers is limited, for every protocol.
func TestNewClient_EndlessHeaders_GivenUp(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Pad", strings.Repeat("x", 1<<20))
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		client := NewClient()
		client.Transport.(unswitched).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		if resp, err := Do(t.Context(), client, http.MethodGet, server.URL, Header("", ""), nil); err == nil {
			t.Errorf("HTTP/2 %t: taken with %d bytes of headers", http2, len(resp.Header.Get("X-Pad")))
		}
	}
}
