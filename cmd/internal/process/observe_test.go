package process

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// /metrics contains the backlogs and the sinks that are down, with their ages, because the alerts use them.
func TestObserve_OldReceiptsAndSinkOut_OnMetrics(t *testing.T) {
	t.Parallel()
	n := open(t, schematest.NewDSN(t), func(cfg *config.Config) {
		noTemporal(t, cfg)
		cfg.Sources = map[string]config.Source{"stripe": {Provider: "stripe", Secrets: []config.Secret{{NotAfter: time.Now().Add(time.Hour)}, {NotAfter: time.Now().Add(24 * time.Hour)}}},
			"endless": {Provider: "stripe", Secrets: []config.Secret{{NotAfter: time.Now().Add(time.Hour)}, {}}}}
		cfg.Sinks["finance"] = &config.Sink{Server: config.Server{Endpoint: config.Endpoint{URL: "http://127.0.0.1:1"}}, Sending: config.Sending{Bounds: config.Bounds{MaxConcurrency: 7}}}
	})
	book, publisher, _, err := n.Equip()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	if err := (&exporter{n, n.telemetry.Meter(), book, publisher.Outbox}).observe(); err != nil {
		t.Fatal(err)
	}
	if err := n.checkAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := scraped(t, n); got[`pawl_audit_broken`] != 0 || got[`pawl_database_bytes`] < 1e6 || got[`pawl_database_connections_max`] < 10 {
		t.Errorf("the server: %v", got)
	}
	kept, err := n.Receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now().Add(-time.Hour), Events: []receipt.New{
		{EventID: "evt_1", Mode: "live", Type: "invoice.paid", Identity: receipt.ByID, Status: receipt.Received, Body: []byte("{}")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Receipts.Transition(t.Context(), kept[0].ReceiptID, receipt.Processing, "", ""); err != nil {
		t.Fatal(err)
	}
	well := `pawl_sink_down_seconds{reason="",sink="finance"}`
	out := `pawl_sink_down_seconds{reason="finance answered 503",sink="finance"}`
	if got := scraped(t, n); got[well] != 0 || got[out] != 0 {
		t.Errorf("a sink that is well: %v and %v", got[well], got[out])
	}
	if _, err := n.Pool.Exec(t.Context(), `insert into breakers (sink, open, since, reason, probe_at) values ('finance', true, now() - interval '2 minutes', 'finance answered 503', now())`); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Pool.Exec(t.Context(), `insert into tasks (mode, kind, object, state, title, effect_key, created_at, due_by) values
		('live', 'dispute', 'dp_1', 'open', '', '', now() - interval '1 day', now() + interval '2 days'), ('live', 'dispute', 'dp_2', 'open', '', '', now(), now() + interval '9 days'),
		('test', 'review', 'in_1', 'open', '', '', now(), null)`); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Pool.Exec(t.Context(), `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, claimed_at) values
		('reverse-finance-entry:stripe:live:in_1', 'reverse-finance-entry', 'failed', gen_random_uuid(), '', '', now(), now() - interval '2 hours'),
		('withhold-grant:stripe:live:in_1', 'withhold-grant', 'done', gen_random_uuid(), '', '', now(), now() - interval '3 hours'),
		('finance-export:stripe:live:in_1', 'finance-export', 'failed', gen_random_uuid(), '', '', now(), now() - interval '4 hours')`); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Pool.Exec(t.Context(), `insert into operator_actions (request_id, actor, action, target, reason, before, after, prev_hash, hash)
		values ('r', 'ada', 'retry', 'evt_1', 'x', '{}', '{}', '', 'made up')`); err != nil {
		t.Fatal(err)
	}
	if err := n.checkAudit(t.Context()); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("a row that was slipped in: %v", err)
	}
	n.effects.Read(t.Context(), n.gates.all(), n.Runs.SinkWaiters)
	got := scraped(t, n)
	for name, want := range map[string]float64{
		`pawl_receipts_open{financial="true",mode="live",status="processing"}`:           1,
		`pawl_receipts_open{financial="false",mode="live",status="processing"}`:          0,
		`pawl_receipts_open{financial="true",mode="test",status="retrying"}`:             0,
		`pawl_receipts_oldest_seconds{financial="true",mode="live",status="processing"}`: 3600,
		`pawl_audit_broken`: 1,
		`pawl_secret_expiry_timestamp_seconds{source="stripe"}`: float64(time.Now().Add(24*time.Hour).Unix() - 60),
		`pawl_undos_open`:                                             1,
		`pawl_undos_oldest_seconds`:                                   7200,
		`pawl_pool_connections{pool="effects",state="idle"}`:          1,
		`pawl_pool_connections_max{pool="intake"}`:                    8,
		`pawl_group_commit_requests_total{of="receipts"}`:             1,
		`pawl_group_commit_seconds_count{of="receipts",outcome="ok"}`: 1,
		out: 120,
		`pawl_sink_in_flight_max{sink="finance"}`:               7,
		`pawl_sink_in_flight{sink="finance"}`:                   0,
		`pawl_tasks_open{kind="dispute",mode="live"}`:           2,
		`pawl_tasks_open{kind="review",mode="test"}`:            1,
		`pawl_tasks_oldest_seconds{kind="dispute",mode="live"}`: 86400,
		`pawl_tasks_due_seconds{kind="dispute",mode="live"}`:    2*86400 - 60,
	} {
		if value, there := got[name]; !there || value < want || value > want+60 {
			t.Errorf("%s is %v (there: %t), want %v", name, value, there, want)
		}
	}
}

var sample = regexp.MustCompile(`(?m)^(pawl_[a-z_]+(?:\{[^}]*\})?) ([0-9.e+]+)$`)

// scraped reads /metrics of the node.
func scraped(t *testing.T, n *Node) map[string]float64 {
	t.Helper()
	page := httptest.NewRecorder()
	n.telemetry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	values := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(page.Body.String(), -1) {
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		values[m[1]] = value
	}
	return values
}
