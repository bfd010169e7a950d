package ingress_test

import (
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pawlhq/pawl/ingress"
)

// How much of what is shared out is taken shows before somebody is shed: connections by whether they are proven, those
// that lost their places, and the memory of bodies.
func TestMetrics_WhatIsSharedOut(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Limits.Connections = 8
		c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute
		c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
	})
	b.dialFrom(t, "127.0.0.1", signedRequest(`{"id":"e1"}`)) // the sender keeps its connection
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
	seen("pawl_connections_displaced", "", 6, 6)
	seen("pawl_connections", "unproven", 7, 7)
	seen("pawl_connections", "verified", 1, 1)
}

func signedRequest(body string) string {
	return "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: " + sign([]byte(body)) + "\r\nContent-Length: 11\r\n\r\n" + body
}

// measured returns what an instrument shows for a state.
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
