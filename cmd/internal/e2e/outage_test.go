package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/pawlhq/pawl/schema/schematest"
)

// These tests stop servers that all tests share, so they are not parallel: Go runs them before the parallel tests.

func TestOutage_TemporalDown_EventsTakenAndFinishedAfterwards(t *testing.T) {
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")
	before := newInvoice(t, nil)
	w.deliver(in, before)
	w.awaitStatus(patience, []invoice{before}, processed)

	server, _ := temporal(t)
	port := portOf(t, server.Addr())
	if err := stopTemporal(); err != nil {
		t.Fatal(err)
	}
	events := newInvoices(t, schematest.OrLong(30, 100))
	w.deliverAll(in, events)
	if n := w.count(`select count(*) from receipts where status = 'received'`); n != len(events) {
		t.Errorf("%d receipts wait, want %d", n, len(events))
	}
	if err := startTemporal(port); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	w.awaitStatus(time.Minute, events, processed)
	t.Logf("%d events were finished %s after Temporal was back", len(events), time.Since(back).Round(100*time.Millisecond))
	w.check(nil)
}

func TestOutage_PostgresDown_503WithinASecondAndBackWithoutRestart(t *testing.T) {
	w := newWorld(t)
	in := w.ingress("")
	w.worker("")
	before := newInvoice(t, nil)
	w.deliver(in, before)
	w.awaitStatus(patience, []invoice{before}, processed)

	pause(t)
	events := newInvoices(t, 30)
	for range 3 {
		for _, d := range w.sender.postAll(events, 1, in.url) {
			if d.status != http.StatusServiceUnavailable || d.retryAfter == "" {
				t.Errorf("while Postgres is down: answered %d, Retry-After %q; want 503 and a time", d.status, d.retryAfter)
			}
			if d.took > time.Second {
				t.Errorf("while Postgres is down: answered after %s, want at most 1s", d.took)
			}
		}
	}
	resume(t)
	w.deliver(in, events...)
	w.awaitStatus(time.Minute, events, processed)
	w.check(nil)
}

// The database goes down after each effect was applied and before it is recorded.
func TestOutage_PostgresDownWhileEffectsRun_FinishedAfterwards(t *testing.T) {
	w := newWorldWith(t, 6*time.Second) // the mail server must delay its response until the database is down
	in := w.ingress("")
	w.worker("")
	// Each service accepts the request and then sends an error or no response.
	w.fault(`{"service":"workspaces","next":1000,"mode":"status_after_accept","status":503,"latency_ms":500}`)
	w.fault(`{"service":"finance","next":1000,"mode":"status_after_accept","status":503,"latency_ms":500}`)
	w.fault(`{"service":"events","next":1000,"mode":"status_after_accept","status":503,"latency_ms":500}`)
	w.fault(`{"service":"email","mode":"hang_after_accept"}`)
	e := newInvoice(t, nil)
	w.deliver(in, e)
	for _, service := range []string{"workspaces", "finance", "events", "email"} {
		await(t, patience, func() error {
			if len(w.journal(service)) == 0 {
				return fmt.Errorf("%s has accepted nothing", service)
			}
			return nil
		})
	}
	pause(t)
	w.awaitPending(e, "provision-workspace", "finance-export", "receipt-email")
	w.clearFaults()
	resume(t)
	w.awaitStatus(recovery, []invoice{e}, "needs_review")
	w.check(map[string]string{e.ID: uncertain})
}

// awaitPending waits until effects of e of all these kinds have failed and will be retried. Temporal then shows them
// as activities with their keys.
func (w *world) awaitPending(e invoice, kinds ...string) {
	w.t.Helper()
	_, c := temporal(w.t)
	await(w.t, patience, func() error {
		run, err := c.DescribeWorkflow(w.t.Context(), "stripe:"+e.ID, "")
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if !slices.ContainsFunc(run.RawResponse.PendingActivities, func(a *workflowpb.PendingActivityInfo) bool {
				return strings.HasPrefix(a.ActivityId, kind+":stripe:live:") && a.LastFailure != nil
			}) {
				return fmt.Errorf("no %s is tried again; pending: %v", kind, run.RawResponse.PendingActivities)
			}
		}
		return nil
	})
}

// pause stops Postgres until resume is called or the test ends.
func pause(t *testing.T) {
	t.Helper()
	if err := schematest.Server(t).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resume(t) })
}

func resume(t *testing.T) {
	t.Helper()
	if err := schematest.Server(t).Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// portOf returns the port of host:port.
func portOf(t *testing.T, addr string) int {
	t.Helper()
	port, err := strconv.Atoi(addr[len("127.0.0.1:"):])
	if err != nil {
		t.Fatal(err)
	}
	return port
}
