package ops_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/ops"
)

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestServer(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	for name, c := range map[string]struct {
		ready  func(context.Context) error
		status int
		body   string
	}{
		"ready":     {func(context.Context) error { return nil }, 200, "ok"},
		"not ready": {func(context.Context) error { return errors.New("disk full") }, 503, "not ready: disk full"},
		"hangs":     {func(context.Context) error { <-hang; return nil }, 503, "not ready: context deadline exceeded"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := ops.New(ops.Config{Ready: c.ready, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "pawl_deliveries_total 1")
		})})
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		url := "http://" + l.Addr().String()

		begin := time.Now()
		if status, body := get(t, url+"/readyz"); status != c.status || body != c.body {
			t.Errorf("%s: /readyz %d %s, want %d %s", name, status, body, c.status, c.body)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: /readyz took %s, want about a second at most", name, took)
		}
		if status, body := get(t, url+"/livez"); status != 200 || body != "ok" {
			t.Errorf("%s: /livez %d %s, want 200 ok", name, status, body)
		}
		if status, body := get(t, url+"/metrics"); status != 200 || body != "pawl_deliveries_total 1" {
			t.Errorf("%s: /metrics %d %s", name, status, body)
		}
		if status, _ := get(t, url+"/hooks/shop"); status != 404 {
			t.Errorf("%s: /hooks/shop %d, want 404", name, status)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
