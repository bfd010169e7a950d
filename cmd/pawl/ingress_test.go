package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
)

// An ingress that was asked to stop says so before it stops: nothing meets a closed port while the load
// balancer still sends here.
func TestIngress_ShutdownDelay_TakesOnAndIsNotReady(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	webhooks, health, temporal := schematest.FreeAddr(t), schematest.FreeAddr(t), filepath.Join(t.TempDir(), "temporal.toml")
	write(t, temporal, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	write(t, s.file, read(t, s.file)+"temporal: {config_file: '"+temporal+"'}\nops: {ingress: '"+health+"'}\n"+
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
