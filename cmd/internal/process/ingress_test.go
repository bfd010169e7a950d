package process

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// An ingress that starts while Temporal is down exports the size of the backlog, because the alert for this outage
// uses it.
func TestIngress_StartedWithoutTemporal_BacklogIsMeasured(t *testing.T) {
	t.Parallel()
	n := open(t, schematest.NewDSN(t), func(cfg *config.Config) {
		noTemporal(t, cfg)
		cfg.Ingress.Listen = "127.0.0.1:0"
	})
	if _, err := n.Receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{
		{EventID: "evt_1", Mode: "live", Type: "invoice.paid", Identity: receipt.ByID, Status: receipt.Received, Body: []byte("{}")},
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	ran := make(chan error, 1)
	go func() { ran <- n.RunIngress(ctx, nil) }()
	until(t, "pawl_dispatch_backlog is measured", func() bool {
		page := httptest.NewRecorder()
		n.telemetry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(page.Body.String(), "\npawl_dispatch_backlog 1\n")
	})
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// lines is a log that a test can read while the process writes to it.
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

// If ingress and worker are one process and the effects use all of their connections, deliveries are not delayed.
func TestListen_EffectsHoldEveryConnection_DeliveriesTaken(t *testing.T) {
	t.Parallel()
	n := open(t, schematest.NewDSN(t), func(cfg *config.Config) {
		noTemporal(t, cfg)
		cfg.Ingress.Listen = "127.0.0.1:0"
	})
	var said lines
	n.log = slog.New(slog.NewTextHandler(&said, nil))
	for range n.Pool.Config().MaxConns {
		conn, err := n.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}

	ctx, stop := context.WithCancel(t.Context())
	ready, ran := make(chan struct{}), make(chan error, 1)
	go func() { ran <- n.RunIngress(ctx, ready) }()
	<-ready
	_, address, _ := strings.Cut(said.String(), "address=")
	address, _, _ = strings.Cut(address, " ")
	body := []byte(`{"id":"evt_1","object":"event","type":"invoice.paid","livemode":true,"data":{"object":{"id":"in_1"}}}`)
	signed, err := stripe.Provider.Sign(webhook.SignInput{Secret: "whsec_0123456789abcdef0123456789abcdef", At: time.Now(), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/hooks/stripe", bytes.NewReader(signed.Body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = signed.Header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("answered %d %s, want 202", resp.StatusCode, answer)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
