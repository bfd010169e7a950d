package main

import (
	"context"
	"log/slog"
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
	cfg, err := config.Load(s.file, func(k string) (string, bool) { v, ok := s.env[k]; return v, ok }, providerNames()...)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Temporal.ConfigFile = filepath.Join(t.TempDir(), "temporal.toml")
	write(t, cfg.Temporal.ConfigFile, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	cfg.Ingress.Listen = "127.0.0.1:0"
	n, err := newNode(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	if _, err := n.receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{
		{EventID: "evt_1", Mode: "live", Type: "invoice.paid", IDOrigin: "body", Status: receipt.Received, Body: []byte("{}")},
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	ran := make(chan error, 1)
	go func() { ran <- n.runIngress(ctx, nil) }()
	for seen := false; !seen; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("pawl_backlog is not measured")
		}
		page := httptest.NewRecorder()
		n.telemetry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		seen = strings.Contains(page.Body.String(), "\npawl_backlog 1\n")
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// The allow-list of the configuration reaches the server.
func TestIngressSource_AllowFrom(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	cfg, err := config.Load(s.file, func(k string) (string, bool) { v, ok := s.env[k]; return v, ok }, providerNames()...)
	if err != nil {
		t.Fatal(err)
	}
	network := netip.MustParsePrefix("192.0.2.0/24")
	source := cfg.Sources["stripe"]
	source.AllowFrom = []config.Network{{Prefix: network}}
	cfg.Sources["stripe"] = source
	made, err := ingressSource(cfg, "stripe")
	if err != nil {
		t.Fatal(err)
	}
	if len(made.AllowFrom) != 1 || made.AllowFrom[0] != network || made.Provider.Name != "stripe" {
		t.Errorf("source %+v", made)
	}
}
