package sinkcheck

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Each API in the configuration can be checked.
func TestSamples_EachAPI(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Sinks: config.Sinks{"workspaces": {}, "finance": {}, "email": {}}}
	for _, s := range cfg.Targets() {
		if _, written := samples[s.Name]; s.HTTP != nil && !written {
			t.Errorf("no check is defined for %s", s.Name)
		}
	}
}

// pawl has no request without an effect for a sink that only flows use, so its check sends nothing and says so.
func TestPlans_SinkOfFlows_SendsNothing(t *testing.T) {
	t.Parallel()
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	cfg := &config.Config{Sinks: config.Sinks{"stock": {Server: config.Server{Endpoint: config.Endpoint{URL: server.URL}}}}}
	var found []Finding
	for _, p := range Plans(cfg) {
		found = append(found, p.Run(t.Context())...)
	}
	if len(found) != 1 || found[0].Sink != "stock" || found[0].Result != Note || found[0].Do == "" || asked {
		t.Errorf("got %+v (a request was sent: %t), want one note about stock", found, asked)
	}
}
