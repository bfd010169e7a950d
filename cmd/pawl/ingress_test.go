package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		source config.Source
		event  string
		want   bool
	}{
		{"a flow is written", config.Source{Provider: "stripe"}, "invoice.paid", true},
		{"no flow", config.Source{Provider: "stripe"}, "moon.risen", false},
		{"no flow, relayed", config.Source{Provider: "stripe", Relay: []string{"crm"}}, "moon.risen", true},
		{"another provider", config.Source{Provider: "github"}, "push", false},
		{"another provider, relayed", config.Source{Provider: "github", Relay: []string{"crm"}}, "push", true},
		{"relayed, not on the list", config.Source{Provider: "github", Relay: []string{"crm"}, Events: []string{"push"}}, "star", false},
		{"relayed, on the list", config.Source{Provider: "github", Relay: []string{"crm"}, Events: []string{"push"}}, "push", true},
		{"written, not on the list", config.Source{Provider: "stripe", Events: []string{"invoice.payment_succeeded"}}, "invoice.paid", false},
	} {
		if got := wanted(c.source)(c.event); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// An ingress that is started while Temporal is away shows what waits: the alert for that outage hangs on it.
func TestIngress_StartedWithoutTemporal_BacklogIsMeasured(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	n := s.node(t, func(cfg *config.Config) {
		cfg.Temporal.ConfigFile = filepath.Join(t.TempDir(), "temporal.toml")
		write(t, cfg.Temporal.ConfigFile, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
		cfg.Ingress.Listen = "127.0.0.1:0"
	})
	if _, err := n.receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{
		{EventID: "evt_1", Mode: "live", Type: "invoice.paid", Identity: receipt.ByID, Status: receipt.Received, Body: []byte("{}")},
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	ran := make(chan error, 1)
	go func() { ran <- n.runIngress(ctx, nil) }()
	until(t, "pawl_backlog is measured", func() bool {
		page := httptest.NewRecorder()
		n.telemetry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(page.Body.String(), "\npawl_backlog 1\n")
	})
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// An ingress that was asked to stop says so before it stops: nothing meets a closed port while the load
// balancer still sends here.
func TestIngress_ShutdownDelay_TakesOnAndIsNotReady(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	webhooks, health, temporal := freeAddr(t), freeAddr(t), filepath.Join(t.TempDir(), "temporal.toml")
	write(t, temporal, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	write(t, s.file, read(t, s.file)+"temporal: {config_file: '"+temporal+"'}\nops: {listen: '"+health+"'}\n"+
		"ingress: {listen: '"+webhooks+"', shutdown_delay: 6s}\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--config", s.file, "ingress"}, stdio{strings.NewReader(""), io.Discard, io.Discard}, s.variable)
	}()
	ready := func() int {
		resp, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	until(t, "it is ready", func() bool { return ready() == http.StatusOK })
	stop()
	until(t, "it is not ready because it is being stopped", func() bool { return ready() == http.StatusServiceUnavailable })
	if r := s.pawl(t, "send", "--source", "stripe", "--type", "invoice.paid"); r.code != 0 {
		t.Errorf("a delivery while it waits: exit %d, %s", r.code, r.err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if ready() != 0 {
		t.Error("it still answers")
	}
}

// until waits for what must become true soon.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

// freeAddr is an address that nobody listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// A database that was down at the start is checked when it is there.
func TestAwaitSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		fits   bool
	}{
		"migrated":     {"select 1", true},
		"not migrated": {"drop schema public cascade; create schema public", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
			n := s.node(t, nil)
			if _, err := n.pool.Exec(t.Context(), c.before); err != nil {
				t.Fatal(err)
			}
			if err := n.ready(); err == nil {
				t.Error("ready before the schema was seen")
			}
			err := n.awaitSchema(t.Context())
			if (err == nil) != c.fits || (n.ready() == nil) != c.fits {
				t.Errorf("got %v, ready %v; want it to fit: %t", err, n.ready(), c.fits)
			}
		})
	}
}

// The allow-list of the configuration reaches the server.
func TestIngressSource_AllowFrom(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	cfg, err := config.Load(s.file, s.variable, providers())
	if err != nil {
		t.Fatal(err)
	}
	network := netip.MustParsePrefix("192.0.2.0/24")
	source := cfg.Sources["stripe"]
	source.AllowFrom = []config.Network{{Prefix: network}}
	cfg.Sources["stripe"] = source
	made, err := ingressSource(cfg, "stripe", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.AllowFrom) != 1 || made.AllowFrom[0] != network || made.Provider.Name != "stripe" {
		t.Errorf("source %+v", made)
	}
}
