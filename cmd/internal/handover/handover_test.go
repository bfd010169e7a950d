package handover

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// A server takes over an address while clients connect. No request fails, and the address is closed after the last
// server.
func TestListeners_Handover_NoConnectionRefused(t *testing.T) {
	t.Parallel()
	var listeners Listeners
	before, after := listeners.Group(), listeners.Group()
	before.Start()
	first, err := before.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var answered [2]atomic.Int64
	serve := func(i int, l net.Listener) *http.Server {
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered[i].Add(1) })}
		go func() { _ = server.Serve(l) }()
		return server
	}
	old := serve(0, first)
	url := "http://" + first.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() {
		resp, err := client.Get(url)
		if err != nil {
			t.Errorf("a request failed: %v", err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				get()
			}
		}
	}()
	second, err := after.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := serve(1, second)
	for range 20 {
		get()
	}
	if n := answered[1].Load(); n > 0 {
		t.Errorf("the new server answered %d requests before its start", n)
	}
	after.Start()
	before.Leave()
	for answered[1].Load() == 0 { // a request that the old server has already accepted may come first
		get()
	}
	// net/http drops a request that it reads after Shutdown has begun. In use, the old server stays for some seconds.
	close(stop)
	<-stopped
	if err := old.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := answered[0].Load()
	for range 20 {
		get()
	}
	if answered[0].Load() != answers || answered[1].Load() < 20 {
		t.Errorf("the old server answered %d more requests, and the new one %d, want 0 and at least 20",
			answered[0].Load()-answers, answered[1].Load())
	}
	if err := next.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", first.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the address is still open after its last server")
	}
}

// Close ends a waiting Accept, and further calls change nothing.
func TestListeners_Close_EndsAccept(t *testing.T) {
	t.Parallel()
	var listeners Listeners
	g := listeners.Group()
	g.Start()
	l, err := g.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept() = %v, want %v", err, net.ErrClosed)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept() after Close = %v, want %v", err, net.ErrClosed)
	}
}

// An address that another process uses is an error, and a later attempt can succeed.
func TestListeners_AddressInUse_Error(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var listeners Listeners
	g := listeners.Group()
	if _, err := g.Listen(t.Context(), taken.Addr().String()); err == nil {
		t.Fatal("no error for an address in use")
	}
	_ = taken.Close()
	l, err := g.Listen(t.Context(), taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
