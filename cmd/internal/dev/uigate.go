package dev

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/temporalui"
)

// uiGate serves the Web UI of a dev server through [temporalui.Handler].
type uiGate struct {
	listener net.Listener
	server   *http.Server
	// The UI itself listens on ip and port.
	ip   string
	port int
}

// newUIGate listens on port for a UI that will listen on inner.
func newUIGate(port, inner int) (*uiGate, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the Temporal UI: %w", err)
	}
	g := &uiGate{listener: l, ip: hiddenIP(), port: inner}
	ui := &url.URL{Scheme: "http", Host: net.JoinHostPort(g.ip, strconv.Itoa(inner))}
	g.server = &http.Server{Handler: temporalui.Handler(ui), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = g.server.Serve(l) }()
	return g, nil
}

// hiddenIP returns a random address of the network 127.0.0.0/8, which a web page cannot guess. A process can listen on
// all these addresses only on Linux; on other systems, hiddenIP returns 127.0.0.1.
func hiddenIP() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	n := rand.Uint32()
	return net.IPv4(127, byte(1+n%254), byte(n>>8), byte(1+(n>>16)%254)).String()
}

// close ends the gate. It may be called twice, and on nil.
func (g *uiGate) close() {
	if g != nil {
		_ = g.server.Close()
		_ = g.listener.Close()
	}
}
