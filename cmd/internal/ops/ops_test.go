package ops_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
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
	fine := func(context.Context) (string, error) { return "", nil }
	full := func(context.Context) (string, error) { return "", errors.New("disk full") }
	hangs := func(context.Context) (string, error) { <-hang; return "", nil }
	noted := func(context.Context) (string, error) { return "acme waits", nil }
	for name, c := range map[string]struct {
		ready  error
		parts  []ops.Part
		status int
		body   string
	}{
		"ready":         {nil, []ops.Part{{"webhooks", fine, true}}, 200, `^ok\nwebhooks: \d+m?s$`},
		"not ready":     {nil, []ops.Part{{"webhooks", full, true}}, 503, `^not ready: webhooks: disk full\nwebhooks: \d+m?s: disk full$`},
		"hangs":         {nil, []ops.Part{{"webhooks", hangs, true}}, 503, `^not ready: webhooks: context deadline exceeded\nwebhooks: 1(\.\d+)?s: context deadline exceeded$`},
		"another hangs": {nil, []ops.Part{{"webhooks", fine, true}, {"effects", hangs, false}}, 200, `^ok\nwebhooks: \d+m?s\neffects: 1(\.\d+)?s: context deadline exceeded$`},
		"has a note":    {nil, []ops.Part{{"effects", noted, true}}, 200, `^ok\neffects: \d+m?s: acme waits$`},
		"is stopped":    {errors.New("it is being stopped"), []ops.Part{{"webhooks", fine, true}}, 503, `^not ready: it is being stopped\nwebhooks: \d+m?s$`},
		"has no parts":  {nil, nil, 503, `^not ready: it is starting$`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := ops.New(ops.Config{Ready: func() error { return c.ready }, Parts: func() []ops.Part { return c.parts }, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "pawl_deliveries_total 1")
		})})
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		url := "http://" + l.Addr().String()

		begin := time.Now()
		if status, body := get(t, url+"/readyz"); status != c.status || !regexp.MustCompile(c.body).MatchString(body) {
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

// A server with many silent connections still answers a probe.
func TestServer_IdleConnections_ProbeAnswered(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fine := ops.Part{Name: "webhooks", Probe: func(context.Context) (string, error) { return "", nil }}
	s := ops.New(ops.Config{Ready: func() error { return nil }, Parts: func() []ops.Part { return []ops.Part{fine} }})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	first := dial(t, l)
	var idle []net.Conn
	for range 200 {
		idle = append(idle, dial(t, l))
	}
	if status, body := get(t, "http://"+l.Addr().String()+"/readyz"); status != http.StatusOK {
		t.Errorf("/readyz %d %s, want 200", status, body)
	}
	_ = first.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest idle connection: %v, want it closed", err)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
