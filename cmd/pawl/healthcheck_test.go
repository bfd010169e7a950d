package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer int
		code   int
	}{{"ready", http.StatusOK, 0}, {"not ready", http.StatusServiceUnavailable, command.ExitFailed}} {
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
			listenOn(t, s, strings.TrimPrefix(server.URL, "http://"), schematest.FreeAddr(t))
			for _, args := range [][]string{{"healthcheck"}, {"healthcheck", "ingress"}} {
				r := s.Pawl(t, args...)
				if r.Code != tt.code {
					t.Errorf("%v: exit %d, want %d; stderr %q", args, r.Code, tt.code, r.Err)
				}
				if tt.code != 0 && (!strings.Contains(r.Err, "not ready: the database sleeps; webhooks: 701ms") || strings.Count(r.Err, "\n") != 1) {
					t.Errorf("%v: stderr %q does not give the reason and the part, in one line", args, r.Err)
				}
				if tt.code == 0 && r.Out != "ingress is ready\n  webhooks: 701ms: the database sleeps\n" {
					t.Errorf("%v: stdout %q does not contain the state of the parts", args, r.Out)
				}
			}
			if r := s.Pawl(t, "healthcheck", "worker"); r.Code != command.ExitFailed || !strings.Contains(r.Err, "ops.worker") || strings.Contains(r.Err, "ops.ingress") {
				t.Errorf("the worker, which does not run: exit %d, stderr %q; want 1 and the key of its address", r.Code, r.Err)
			}
		})
	}
}

// If one part is not ready, the process is not ready.
func TestReady_BothRun_BothAsked(t *testing.T) {
	t.Parallel()
	answers := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("it says so\n"))
		}))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	for want, addrs := range map[int][2]string{
		0: {answers(http.StatusOK), answers(http.StatusOK)},
		1: {answers(http.StatusOK), answers(http.StatusServiceUnavailable)},
	} {
		s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
		listenOn(t, s, addrs[0], addrs[1])
		r := s.Pawl(t, "healthcheck")
		if r.Code != want || want == 0 && r.Out != "ingress is ready\nworker is ready\n" || want == 1 && !strings.Contains(r.Err, "worker (ops.worker)") {
			t.Errorf("exit %d, stdout %q, stderr %q; want %d", r.Code, r.Out, r.Err, want)
		}
	}
}

// An ingress and a worker run on one host with one file.
func TestReady_IngressAndWorkerOfOneFile_BothThere(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	temporal := filepath.Join(t.TempDir(), "temporal.toml")
	commandtest.Write(t, temporal, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"temporal: {config_file: '"+temporal+"'}\ningress: {listen: '"+schematest.FreeAddr(t)+"'}\n")
	listenOn(t, s, schematest.FreeAddr(t), schematest.FreeAddr(t))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 2)
	for _, name := range []string{"ingress", "worker"} {
		go func() {
			ended <- program().Run(ctx, []string{"--config", s.File, name}, command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, s.Variable)
		}()
	}
	until(t, "both are ready", func() bool {
		r := s.Pawl(t, "healthcheck")
		return r.Code == 0 && strings.Contains(r.Out, "ingress is ready\n  webhooks: ") && strings.Contains(r.Out, "worker is ready\n  effects: ")
	})
	stop()
	for range 2 {
		if code := <-ended; code != 0 {
			t.Errorf("exit %d, want 0", code)
		}
	}
}

func TestReady_NothingListens_ExitOne(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	listenOn(t, s, schematest.FreeAddr(t), schematest.FreeAddr(t))
	if r := s.Pawl(t, "healthcheck"); r.Code != command.ExitFailed || !strings.Contains(r.Err, "ops.ingress") || !strings.Contains(r.Err, "ops.worker") {
		t.Errorf("exit %d, stderr %q; want 1 and the keys of the addresses", r.Code, r.Err)
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

// listenOn sets the addresses in ops in the configuration of the stack.
func listenOn(t *testing.T, s commandtest.Stack, ingress, worker string) {
	t.Helper()
	f, err := os.OpenFile(s.File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\nops: {ingress: '" + ingress + "', worker: '" + worker + "'}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// An ingress that is stopping reports that it is not ready before it closes its port, so that the load balancer stops
// sending requests first.
func TestIngress_ShutdownDelay_TakesOnAndIsNotReady(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	webhooks, health, temporal := schematest.FreeAddr(t), schematest.FreeAddr(t), filepath.Join(t.TempDir(), "temporal.toml")
	commandtest.Write(t, temporal, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"temporal: {config_file: '"+temporal+"'}\nops: {ingress: '"+health+"'}\n"+
		"ingress: {listen: '"+webhooks+"', shutdown_delay: 6s}\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- program().Run(ctx, []string{"--config", s.File, "ingress"}, command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, s.Variable)
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
	if r := s.Pawl(t, "send", "--source", "stripe", "--type", "invoice.paid"); r.Code != 0 {
		t.Errorf("a delivery while it waits: exit %d, %s", r.Code, r.Err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if ready() != 0 {
		t.Error("it still answers")
	}
}

// until waits until a condition is true.
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
