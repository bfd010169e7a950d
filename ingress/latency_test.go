package ingress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
)

// roundTrip is the delay between the connection, the head and the body of a request, as on a real network.
const roundTrip = 40 * time.Millisecond

// deliverSlowly sends a valid delivery on conn, with a round trip before its head and before its body.
func deliverSlowly(conn net.Conn, body string, roundTrip time.Duration) (status int, closed bool, err error) {
	time.Sleep(roundTrip) //nolint:forbidigo // simulates the network's delay
	if _, err := fmt.Fprintf(conn, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: %d\r\n\r\n", sign([]byte(body)), len(body)); err != nil {
		return 0, false, err
	}
	time.Sleep(roundTrip) //nolint:forbidigo // simulates the network's delay
	if _, err := io.WriteString(conn, body); err != nil {
		return 0, false, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, false, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Close, nil
}

// deliverAndStay sends n valid deliveries, each on its own connection, which stays open as long as the server permits.
// It returns the number of accepted deliveries, and of answers that left the connection open.
func (b *bench) deliverAndStay(t *testing.T, name string, n, atOnce int) (taken, left int64) {
	t.Helper()
	var next, ok, open atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				status, closed, err := deliverSlowly(b.dialFrom(t, "127.0.0.1", ""), fmt.Sprintf(`{"id":"%s%d","type":"paid"}`, name, i), roundTrip)
				if err != nil || status != http.StatusAccepted {
					t.Logf("delivery %s%d: %v", name, i, err)
					continue
				}
				ok.Add(1)
				if !closed {
					open.Add(1)
				}
			}
		})
	}
	all.Wait()
	return ok.Load(), open.Load()
}

// Senders keep their connections open, and the server loses no delivery in progress.
func TestSenders_ConnectionsLeftOpen_EachDeliveryTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Connections = 64 })
	taken, left := b.deliverAndStay(t, "e", 200, 16)
	if taken != 200 {
		t.Errorf("%d of 200 valid deliveries were taken", taken)
	}
	if left == 0 || left > 64 {
		t.Errorf("%d connections were left open, want some, and no more than there is room for", left)
	}
}

// To free connections, the server closes idle connections before connections with a delivery in progress.
func TestSenders_IdleBesideStalled_EachDeliveryTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Connections = 64 })
	b.deliverAndStay(t, "before", 40, 8)
	for range 24 {
		b.dialFrom(t, "127.0.0.2", stalledBody)
	}
	if taken, _ := b.deliverAndStay(t, "after", 60, 8); taken != 60 {
		t.Errorf("%d of 60 valid deliveries were taken", taken)
	}
}

// An attacker replays a captured delivery repeatedly on many connections. The server still accepts all other
// deliveries. The replays are slow, so they occupy the slots all the time but use little CPU.
func TestSenders_Replays_EachDeliveryTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Connections = 64 })
	b.deliverAndStay(t, "captured", 1, 1)
	ctx, stop := context.WithCancel(t.Context())
	var replays sync.WaitGroup
	for i := range 96 {
		from := fmt.Sprintf("127.0.0.%d", 2+i%4)
		replays.Go(func() {
			for ctx.Err() == nil {
				conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", strings.TrimPrefix(b.url, "http://"))
				if err == nil {
					_, _, _ = deliverSlowly(conn, `{"id":"captured1","type":"paid"}`, 5*roundTrip)
					_ = conn.Close()
				}
			}
		})
	}
	taken, _ := b.deliverAndStay(t, "e", 60, 8)
	stop()
	replays.Wait()
	if taken != 60 {
		t.Errorf("%d of 60 valid deliveries were taken", taken)
	}
}
