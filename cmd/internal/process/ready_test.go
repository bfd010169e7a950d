package process

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A process with an ingress is ready when the ingress listens, even if its worker starts first. When the ingress
// stops listening, the process is no longer ready.
func TestReady_IngressAndWorker_WhileItListens(t *testing.T) {
	t.Parallel()
	address := schematest.FreeAddr(t)
	n := open(t, schematest.NewDSN(t), func(cfg *config.Config) {
		noTemporal(t, cfg)
		cfg.Ingress.Listen = address
	})
	if err := n.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler := ops.Handler(ops.Config{Ready: n.ready, Parts: func() []ops.Part { return n.running(Ingress) }})
	ready := func() (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body)
	}
	fine := func(context.Context) (string, error) { return "", nil }
	n.join(ops.Part{Name: effects, Probe: fine})
	if status, body := ready(); status != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("before it listens: %d %s, want 503 because it is starting", status, body)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- n.RunIngress(ctx, nil) }()
	until(t, "it is ready", func() bool { status, _ := ready(); return status == http.StatusOK })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Errorf("ready, and does not listen: %v", err)
	} else {
		_ = conn.Close()
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if status, _ := ready(); status != http.StatusServiceUnavailable {
		t.Errorf("after it has stopped: %d, want 503", status)
	}
}
