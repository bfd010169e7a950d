package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer int
		code   int
	}{{"ready", http.StatusOK, 0}, {"not ready", http.StatusServiceUnavailable, exitFailed}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s, want /readyz", r.URL.Path)
				}
				w.WriteHeader(tt.answer)
				_, _ = w.Write([]byte("not ready: the database sleeps\nwebhooks: 701ms: the database sleeps\n"))
			}))
			t.Cleanup(server.Close)
			s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
			listenOn(t, s, strings.TrimPrefix(server.URL, "http://"))
			r := s.pawl(t, "ready")
			if r.code != tt.code {
				t.Errorf("exit %d, want %d; stderr %q", r.code, tt.code, r.err)
			}
			if tt.code != 0 && (!strings.Contains(r.err, "not ready: the database sleeps; webhooks: 701ms") || strings.Count(r.err, "\n") != 1) {
				t.Errorf("stderr %q does not give the reason and the part, in one line", r.err)
			}
			if tt.code == 0 && r.out != "ready\nwebhooks: 701ms: the database sleeps\n" {
				t.Errorf("stdout %q does not say how the parts are", r.out)
			}
		})
	}
}

func TestReady_NothingListens_ExitOne(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	addr := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	listenOn(t, s, addr)
	if r := s.pawl(t, "ready"); r.code != exitFailed || !strings.Contains(r.err, "ops.listen") {
		t.Errorf("exit %d, stderr %q; want 1 and the key that says where it was asked", r.code, r.err)
	}
}

func TestReadyURL_EveryAddress_AskedByLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"0.0.0.0:8082":   "http://localhost:8082/readyz",
		":8082":          "http://localhost:8082/readyz",
		"[::]:8082":      "http://localhost:8082/readyz",
		"127.0.0.1:8082": "http://127.0.0.1:8082/readyz",
		"10.1.2.3:8082":  "http://10.1.2.3:8082/readyz",
	} {
		if got := readyURL(addr); got != want {
			t.Errorf("readyURL(%q) = %q, want %q", addr, got, want)
		}
	}
}

// listenOn sets ops.listen of the stack's configuration.
func listenOn(t *testing.T, s stack, addr string) {
	t.Helper()
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\nops: {listen: '" + addr + "'}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
