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
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The server accepts a delivery of a new network while two other networks hold 1,100 stalled connections each and
// replace each closed connection. Earlier deliveries of these two networks do not entitle them to all slots. The same
// holds after a restart, before any network has delivered.
//
// No stalled request times out during the test. The 2,200 connections keep all 2,048 slots in use, so every answer
// arrives while the server is full. The test logs the duration of the slowest delivery. It is not parallel, because
// it holds thousands of connections.
func TestNetworks_TwoHoldAllPlaces_ThirdServed(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of connections take ten seconds")
	}
	const first, second = "127.20.0.1", "127.21.0.1"
	for _, restarted := range []bool{false, true} {
		for i, roundTrip := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprintf("restarted %t, round trip %s", restarted, roundTrip), func(t *testing.T) {
				limits := ingress.Limits{Ack: 30 * time.Second, Header: time.Hour, Read: time.Hour, Total: time.Hour}
				b := startWith(t, schematest.New(t), receipt.Options{Timeout: 20 * time.Second}, limits)
				if !restarted {
					b.deliverAll(t, first, "first", 1, 10)
					b.deliverAll(t, second, "second", 1, 10)
				}
				release := b.hold(t, 1100, first, second)
				var slowest time.Duration
				for n := range 10 {
					from := fmt.Sprintf("127.3%d.%d.1", i, n) // a different network for each delivery
					took, status := b.deliverFar(t, from, fmt.Sprintf(`{"id":"far%d","type":"paid"}`, n), roundTrip)
					if status != http.StatusAccepted {
						t.Errorf("delivery %d: got %d after %s, want 202", n, status, took)
					}
					slowest = max(slowest, took)
				}
				t.Logf("the slowest of 10 deliveries took %s", slowest)
				release()
				if got := b.count(t, `select count(*) from receipts where event_id like 'far%'`); got != 10 {
					t.Errorf("%d receipts of 10 deliveries", got)
				}
			})
		}
	}
}

// hold keeps n connections per address open, each with a request without a body, until release is called. It returns
// when every slot is in use.
func (b *bench) hold(t *testing.T, n int, addresses ...string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var holders, opened sync.WaitGroup
	again := rate.NewLimiter(500, n*len(addresses)) // the server shares the machine's two cores
	for _, from := range addresses {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		for range n {
			opened.Add(1)
			holders.Go(func() {
				begun := sync.OnceFunc(opened.Done)
				defer begun()
				for again.Wait(ctx) == nil {
					conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(b.url, "http://"))
					if err != nil {
						continue
					}
					closes := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = io.WriteString(conn, stalledBody)
					begun()
					_, _ = io.Copy(io.Discard, conn)
					closes()
					_ = conn.Close()
				}
			})
		}
	}
	opened.Wait()
	return func() {
		cancel()
		holders.Wait()
	}
}

// deliverFar sends a valid delivery as a distant client does: its request leaves one round trip after it opened the
// connection. It returns the status, or 0 if the connection was closed without an answer.
func (b *bench) deliverFar(t *testing.T, from, body string, roundTrip time.Duration) (took time.Duration, status int) {
	t.Helper()
	began := time.Now()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(time.Minute)) // ends the test if no answer arrives
	<-time.After(roundTrip)
	_, _ = fmt.Fprintf(conn, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: %d\r\n\r\n%s",
		sign([]byte(body)), len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return time.Since(began), 0
	}
	_ = resp.Body.Close()
	return time.Since(began) + roundTrip/2, resp.StatusCode
}
