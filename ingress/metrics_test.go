package ingress_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pawlhq/pawl/ingress"
)

// Metrics show the use of shared resources before the server rejects requests: connections by state, closed
// connections, and the memory of bodies.
func TestMetrics_WhatIsSharedOut(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Limits.Connections = 8
		c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute
		c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
	})
	b.prove(t, "127.0.0.1", `{"id":"e1"}`) // the sender keeps this connection open
	b.dialFrom(t, "127.0.0.2", "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: 00\r\nContent-Length: 500000\r\n\r\n"+strings.Repeat("x", 100<<10))
	seen := func(name, state string, least, most int64) {
		t.Helper()
		var got int64
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
			if got = measured(t, reader, name, state); got >= least && got <= most {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s %s is %d, want %d to %d", name, state, got, least, most)
			}
		}
	}
	seen("pawl_connections", "verified", 1, 1)
	seen("pawl_connections", "unproven", 1, 1)
	seen("pawl_bodies_bytes", "", 100<<10, 200<<10)
	seen("pawl_connections_displaced", "", 0, 0)
	for range 12 {
		b.dialFrom(t, "127.0.0.3", "")
	}
	// The server closes idle connections first, the longest idle first: here the proven connection, then five of the
	// new ones.
	seen("pawl_connections_displaced", "", 6, 6)
	seen("pawl_connections", "unproven", 8, 8)
	seen("pawl_connections", "verified", 0, 0)
}

// prove sends a signed delivery on a connection that stays open, and repeats it until the server accepts it, as a
// provider does: on a busy machine a commit may take too long.
func (b *bench) prove(t *testing.T, from, body string) {
	t.Helper()
	for {
		conn := b.dialFrom(t, from, signedRequest(body))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			return
		}
		_ = conn.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("a valid delivery was answered %s", resp.Status)
		}
	}
}

func signedRequest(body string) string {
	return "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: " + sign([]byte(body)) + "\r\nContent-Length: 11\r\n\r\n" + body
}

// measured returns the value of an instrument for one state.
func measured(t *testing.T, reader *sdkmetric.ManualReader, name, state string) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			var points []metricdata.DataPoint[int64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			case metricdata.Sum[int64]:
				points = data.DataPoints
			}
			for _, p := range points {
				if value, ok := p.Attributes.Value("state"); state == "" || ok && value.AsString() == state {
					return p.Value
				}
			}
		}
	}
	return -1
}
