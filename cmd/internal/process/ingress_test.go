package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// An ingress that is started while Temporal is away shows what waits: the alert for that outage hangs on it.
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
