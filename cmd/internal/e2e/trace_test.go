package e2e_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector that receives traces by OTLP over HTTP.
type spans struct {
	mu   sync.Mutex
	all  []*otlp.Span
	fail error
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail = err; err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range in.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.all = append(s.all, scope.GetSpans()...)
		}
	}
}

// of returns, by span ID, the parent and the name of each span of a trace.
func (s *spans) of(trace string) (parents, names map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parents, names = map[string]string{}, map[string]string{}
	for _, span := range s.all {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			id := hex.EncodeToString(span.GetSpanId())
			parents[id], names[id] = hex.EncodeToString(span.GetParentSpanId()), span.GetName()
		}
	}
	return parents, names
}

// A delivery, its run, each effect and the requests to sinks belong to one trace, and the requests propagate the
// trace. A run that another process starts from the receipt belongs to the trace of the delivery as well. A trace ID
// from the sender has no influence.
func TestTraces_FromDeliveryToSink(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	collects := &spans{}
	server := httptest.NewServer(collects)
	t.Cleanup(server.Close)
	var mu sync.Mutex
	told := map[string]bool{}
	to, err := url.Parse(w.sandbox.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	sinks := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		told[traceIn(r.Header.Get("Traceparent"))+" "+strings.Split(r.URL.Path, "/")[1]] = true
		mu.Unlock()
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(sinks.Close)
	content, err := os.ReadFile(filepath.Join(w.dir, "pawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("pawl.yaml", strings.ReplaceAll(string(content), w.sandbox.URL(), sinks.URL)+
		fmt.Sprintf("tracing: {endpoint: %q, sample_ratio: 1}\n", server.URL))
	const point = "dispatch-before-start"
	first, second := newInvoice(t, nil), newInvoice(t, nil)
	w.worker("")
	w.deliverToKill(w.ingress(point), first, point)
	in := w.ingress("")
	await(t, patience, func() error { // if the database is slow, the answer is 503, and a provider delivers again
		req := w.sender.request(in.url, second, time.Now())
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if d := w.sender.do(second, req); !d.acknowledged() {
			return fmt.Errorf("answered %d", d.status)
		}
		return nil
	})
	w.awaitStatus(recovery, []invoice{first, second}, processed)

	for _, e := range []invoice{first, second} {
		rows := w.rows(`select trace from receipt_bodies b join receipts r on r.id = b.receipt_id where event_id = $1`, e.ID)
		if len(rows) != 1 || rows[0]["trace"] == nil {
			t.Fatalf("the receipt keeps no trace: %v", rows)
		}
		trace := traceIn(rows[0]["trace"].(string))
		want := []string{"StartWorkflow:InvoicePaid", "RunWorkflow:InvoicePaid", "RunActivity:PostEntry", "HTTP POST"}
		if e.ID == second.ID { // the process that received the first delivery was killed before it exported its spans
			want = append(want, "webhook stripe")
		}
		await(t, patience, func() error {
			parents, names := collects.of(trace)
			for _, name := range want {
				if !slices.Contains(slices.Collect(maps.Values(names)), name) {
					return fmt.Errorf("trace %s has no span %q: %v", trace, name, names)
				}
			}
			missing := map[string]bool{} // at most one span may be missing: the delivery itself, or an earlier span
			for _, parent := range parents {
				if names[parent] == "" {
					missing[parent] = true
				}
			}
			if len(missing) != 1 {
				return fmt.Errorf("trace %s hangs together badly: %d of %v have no parent in it", trace, len(missing), names)
			}
			return nil
		})
		mu.Lock()
		for _, sink := range []string{"entries", "workspaces", "events"} {
			if !told[trace+" "+sink] {
				t.Errorf("the request to %s did not contain trace %s: %v", sink, trace, told)
			}
		}
		mu.Unlock()
	}
	collects.mu.Lock()
	defer collects.mu.Unlock()
	for _, span := range collects.all {
		if text := span.String(); collects.fail != nil || strings.Contains(text, secret) || strings.Contains(text, "/entries") {
			t.Errorf("a span contains too much, or could not be read (%v): %s", collects.fail, text)
		}
	}
}

// traceIn returns the trace ID of a traceparent.
func traceIn(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		return ""
	}
	return parts[1]
}
