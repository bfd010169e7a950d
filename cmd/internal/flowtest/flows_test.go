package flowtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// stores is the outside world of the flows in docs/flows.md: it remembers idempotency keys, and counts effects.
type stores struct {
	*httptest.Server

	mu sync.Mutex
	// answers holds the first answers by method and path. Afterwards every request is accepted.
	answers map[string][]int
	// applied holds the bodies of the applied requests, by method, path and key.
	applied map[string]string
	// calls holds the requests in order: method, path and status.
	calls []string
	// broken holds repeats with other bytes.
	broken []string
}

func newStores(t *testing.T, answers map[string][]int) *stores {
	t.Helper()
	s := &stores{answers: answers, applied: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *stores) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	key := request + " " + r.Header.Get("Idempotency-Key")
	status := http.StatusCreated
	if next := s.answers[request]; len(next) > 0 {
		status, s.answers[request] = next[0], next[1:]
	}
	s.calls = append(s.calls, fmt.Sprintf("%s %d", request, status))
	if status != http.StatusCreated {
		w.WriteHeader(status)
		return
	}
	if before, known := s.applied[key]; known && before != string(body) {
		s.broken = append(s.broken, key)
	}
	s.applied[key] = string(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"id": "r-%d", "note": %q}`, len(r.URL.Path), canary)
}

// want checks that each of these requests was applied once, and no other: method, path, key and body.
func (s *stores) want(t *testing.T, wanted ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for key, body := range s.applied {
		got = append(got, strings.TrimSpace(key+" "+body))
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("applied\n got %q\nwant %q\n(calls %q)", got, wanted, s.calls)
	}
	if len(s.broken) > 0 {
		t.Errorf("keys with two bodies: %q", s.broken)
	}
}

const (
	reserved = `POST /reservations flow-request:shopify:live:ship-order:reserve:5678901234567890123 {"lines":[{"n":2,"sku":"mug"}],"order":5678901234567890123}`
	labelled = `POST /labels flow-request:shopify:live:ship-order:label:5678901234567890123 {"order":5678901234567890123,"reservation":"r-13"}`
	released = `DELETE /reservations/r-13 undo-flow-request:shopify:live:ship-order:reserve:5678901234567890123`
)

const orderPaid = `{"id": 5678901234567890123, "name": "#1001", "total_price": "12.50", "currency": "EUR", "note": "a gift",
	"email": "canary@personal.example", "customer": {"id": 7}, "line_items": [{"sku": "mug", "quantity": 2}]}`

// The examples of docs/flows.md, in the order of the page.
const (
	exampleOrder = iota
	exampleList
	exampleWorkflow
	examplePublished
	exampleTask
)

// examples returns the YAML examples of docs/flows.md.
func examples(t *testing.T) (texts []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "flows.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		texts = append(texts, string(m[1]))
	}
	if len(texts) != 5 {
		t.Fatalf("docs/flows.md has %d examples; this package runs 5", len(texts))
	}
	return texts
}

// flowing adds the sources, sinks and flows of an example to a rig's configuration. Its sinks are at the URL of s.
func flowing(t *testing.T, c *config.Config, example string, s *stores) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	example = regexp.MustCompile(`https://\w+\.example\.com`).ReplaceAllLiteralString(example, s.URL)
	write(t, file, example)
	loaded, err := config.Load(file, func(name string) (string, bool) {
		return map[string]string{"DATABASE_URL": "postgres://localhost/unused"}[name] + testSecret, true
	}, map[string]webhook.Provider{"shopify": shopify.Provider, "github": github.Provider, "linear": linear.Provider, "stripe": stripe.Provider})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(c.Sources, loaded.Sources)
	for name, sink := range loaded.Sinks {
		if loaded.Sinks[name].URL != "" {
			sink.Retries, sink.Timeout = impatient, unloaded
			c.Sinks[name] = sink
		}
	}
	c.Flows = loaded.Flows
}

// paid stores and dispatches a delivery of an event of the example's source.
func (r *rig) paid(source, provider, eventType, id, body string) (e forge.Event, workflowID string) {
	r.Helper()
	now := time.Now()
	kept := r.insert(receipt.Delivery{
		Source: source, Provider: provider, ReceivedAt: now, Header: http.Header{}, Events: []receipt.New{
			{Mode: "live", EventID: id, Identity: receipt.ByID, Type: eventType, Status: receipt.Received, Body: []byte(body)}},
	})
	ref := event.Ref{ReceiptID: kept[0].ReceiptID, Provider: provider, Mode: "live", EventID: id, Type: eventType}
	r.starter.Offer([]receipt.Pending{{Ref: ref, Source: source, ReceivedAt: now}})
	return forge.Event{ID: id, Type: eventType, Body: []byte(body)}, workflows.EventInput{Ref: ref}.ID()
}

// flowBranch is one path through an example: the flow ship-order, if no other is given.
type flowBranch struct {
	name    string
	example int
	answers map[string][]int
	body    string
	parks   receipt.Status
	reason  string
	decide  string
	outcome string
	applied []string
	// undone holds the requests of the undo in order.
	undone []string
	task   string
}

const (
	threeLines = `{"id": 5678901234567890123, "line_items": [{"sku": "mug", "quantity": 2}, {"sku": "pen", "quantity": 1}, {"sku": "none", "quantity": 0}, {"sku": "cap", "quantity": 3}]}`
	confirmed  = `POST /orders/5678901234567890123/confirm flow-request:shopify:live:book-tickets:confirm:5678901234567890123`
)

func booked(sku string) string {
	return fmt.Sprintf(`PUT /bookings/5678901234567890123/%s flow-request:shopify:live:book-tickets:book:5678901234567890123/%s {"seats":%d}`, sku, sku,
		map[string]int{"mug": 2, "pen": 1, "cap": 3}[sku])
}

func unbooked(sku string) string {
	return fmt.Sprintf(`DELETE /bookings/5678901234567890123/%s undo-flow-request:shopify:live:book-tickets:book:5678901234567890123/%s`, sku, sku)
}

var flowBranches = []flowBranch{
	{name: "flow-happy", outcome: "processed", applied: []string{reserved, labelled}, task: "open"},
	{name: "flow-escalated", answers: map[string][]int{"POST /reservations": {503}, "POST /labels": {500}}, outcome: "processed", applied: []string{reserved, labelled}, task: "open"},
	{name: "flow-refused", answers: map[string][]int{"POST /labels": {422}}, outcome: "compensated", applied: []string{reserved, released}, task: "cancelled"},
	{name: "flow-conflict", answers: map[string][]int{"POST /reservations": {409}}, outcome: "compensated", task: "cancelled"},
	{
		name: "flow-dead-retry", answers: map[string][]int{"POST /labels": {503, 503, 503}}, parks: receipt.Dead, reason: "effect_failed", decide: workflows.UpdateRetry,
		outcome: "processed", applied: []string{reserved, labelled}, task: "open",
	},
	{
		name: "flow-dead-compensate", answers: map[string][]int{"POST /labels": {400}}, parks: receipt.Dead, reason: "effect_failed", decide: workflows.UpdateCompensate,
		outcome: "compensated", applied: []string{reserved, released}, task: "cancelled",
	},
	{
		name: "flow-undo-retry", answers: map[string][]int{"POST /labels": {422}, "DELETE /reservations/r-13": {404}}, parks: receipt.Dead, reason: "undo_failed",
		decide: workflows.UpdateRetry, outcome: "compensated", applied: []string{reserved, released + ":g2"}, task: "cancelled",
	},
	{name: "flow-list", example: exampleList, body: threeLines, outcome: "processed", applied: []string{booked("mug"), booked("pen"), booked("cap"), confirmed}},
	{
		name: "flow-list-refused", example: exampleList, body: threeLines, answers: map[string][]int{"PUT /bookings/5678901234567890123/pen": {409}}, outcome: "compensated",
		applied: []string{booked("mug"), booked("cap"), unbooked("mug"), unbooked("cap")},
		undone:  []string{"DELETE /bookings/5678901234567890123/cap 201", "DELETE /bookings/5678901234567890123/mug 201"},
	},
	{
		name: "flow-list-retry", example: exampleList, body: threeLines, answers: map[string][]int{"PUT /bookings/5678901234567890123/pen": {503, 503, 503}}, parks: receipt.Dead,
		reason: "effect_failed", decide: workflows.UpdateRetry, outcome: "processed", applied: []string{booked("mug"), booked("pen"), booked("cap"), confirmed},
	},
	{name: "flow-left", body: strings.Replace(orderPaid, "EUR", "GBP", 1), outcome: "processed"},
}

// Every branch of a flow. Each effect happens once, also if the run is reset; a refusal undoes the completed steps; and
// Temporal's history contains no payload and no output.
func TestConfiguredFlow_EveryBranch(t *testing.T) {
	t.Parallel()
	for _, b := range flowBranches {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t, b.answers)
			r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[b.example], s) })
			body := orderPaid
			if b.body != "" {
				body = b.body
			}
			id := branchSeed(b.name)
			e, workflowID := r.paid("shop", "shopify", "orders/paid", id, body)
			r.paid("shop", "shopify", "orders/paid", id, body) // the provider repeats its delivery
			if b.parks != "" {
				r.status(e, b.parks)
				if got := r.rows(`select reason_code from receipts`); !slices.Equal(got, []string{b.reason}) {
					t.Errorf("parked because %q, want %q", got, b.reason)
				}
				r.decide(workflowID, b.decide, workflows.DecisionInput{})
			}
			if result := r.result(workflowID, ""); result.Outcome != b.outcome {
				t.Errorf("result %+v, want %s", result, b.outcome)
			}
			history := r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID())
			noCanary(t, history)
			if b.example == exampleOrder && b.body == "" {
				if got := r.rows(`select account from event_subjects`); !slices.Equal(got, []string{"7"}) {
					t.Errorf("the event has accounts %q, want the customer 7", got)
				}
			}
			encoded, err := json.Marshal(history)
			if err != nil || strings.Contains(string(encoded), "r-13") {
				t.Errorf("the history contains an output (%v)", err)
			}
			if recording() {
				writeGolden(t, "Relay", b.name, history)
			}
			check := func() {
				t.Helper()
				s.want(t, slices.Clone(b.applied)...)
				if got := strings.Join(r.rows(`select state from tasks where kind = 'flow'`), " "); got != b.task {
					t.Errorf("task %q, want %q", got, b.task)
				}
			}
			check()
			undone := slices.DeleteFunc(slices.Clone(s.calls), func(call string) bool { return !strings.HasPrefix(call, "DELETE ") })
			if b.undone != nil && !slices.Equal(undone, b.undone) {
				t.Errorf("the undo sent %q, want %q", undone, b.undone)
			}
			calls := len(s.calls)
			r.resetAndCheck(branch{outcome: b.outcome}, e, workflowID, history)
			check()
			if len(s.calls) != calls {
				t.Errorf("the reset run sent %q", s.calls[calls:])
			}
		})
	}
}

// A step without an undo cannot be compensated: a refusal of a later step undoes nothing, and a person decides.
func TestConfiguredFlow_RefusedAfterFinalStep_Reviewed(t *testing.T) {
	t.Parallel()
	s := newStores(t, map[string][]int{"POST /labels": {422}})
	text := regexp.MustCompile(`(?m)^        undo: .*\n`).ReplaceAllString(examples(t)[exampleOrder], "")
	r := newRig(t, func(c *config.Config) { flowing(t, c, text, s) })
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("final"), orderPaid)
	r.status(e, receipt.NeedsReview)
	s.want(t, reserved)
	if got := r.rows(`select reason_code from receipts`); !slices.Equal(got, []string{"effect_refused"}) {
		t.Errorf("parked because %q", got)
	}
	r.decide(workflowID, workflows.UpdateSkip, workflows.DecisionInput{})
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	s.want(t, reserved)
}

// Two events report one order. The first one reserved the stock. A refusal in the run of the second one does not undo the
// reservation, because it belongs to the first one: a person decides.
func TestConfiguredFlow_RefusedAfterStepOfAnotherEvent_Reviewed(t *testing.T) {
	t.Parallel()
	s := newStores(t, map[string][]int{})
	text := examples(t)[exampleOrder]
	at := strings.Index(text, "label:")
	text = text[:at] + strings.Replace(text[at:], `key: "string(event.id)"`, `key: "meta.id"`, 1)
	r := newRig(t, func(c *config.Config) { flowing(t, c, text, s) })
	id := branchSeed("first")
	_, first := r.paid("shop", "shopify", "orders/paid", id, orderPaid)
	if result := r.result(first, ""); result.Outcome != "processed" {
		t.Fatalf("result %+v", result)
	}
	s.mu.Lock()
	s.answers["POST /labels"] = []int{422}
	s.mu.Unlock()
	e, second := r.paid("shop", "shopify", "orders/paid", branchSeed("second"), orderPaid)
	r.status(e, receipt.NeedsReview)
	r.decide(second, workflows.UpdateSkip, workflows.DecisionInput{})
	if result := r.result(second, ""); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	label := strings.Replace(labelled, "label:5678901234567890123", "label:"+id, 1)
	s.want(t, reserved, label)
}

// A missing field parks the run before any effect, with its path. A retry after the provider's mistake is understood uses
// the corrected flow, because the run has not begun.
func TestConfiguredFlow_MissingField_ParksBeforeEffects(t *testing.T) {
	t.Parallel()
	s := newStores(t, nil)
	r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[exampleOrder], s) })
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("missing"), strings.Replace(orderPaid, `"sku"`, `"code"`, 1))
	r.status(e, receipt.NeedsReview)
	if got := r.rows(`select reason from receipts`); !strings.Contains(got[0], "flow_fault: flow ship-order, steps.reserve.body: l.sku is missing") {
		t.Errorf("parked because %q", got)
	}
	r.decide(workflowID, workflows.UpdateReject, workflows.DecisionInput{})
	if result := r.result(workflowID, ""); result.Outcome != "processed" && result.Outcome != "ignored" {
		t.Errorf("result %+v", result)
	}
	s.want(t)
}

// Linear's bodies contain the time of sending, so the receipt has the hash of the rest of the body. A flow runs such an
// event once, although its second delivery has another time.
func TestConfiguredFlow_HashOfSignedContent_Runs(t *testing.T) {
	t.Parallel()
	s := newStores(t, nil)
	r := newRig(t, func(c *config.Config) {
		flowing(t, c, `
sources: {board: {provider: linear, mode: live, secrets: [{value: env:LINEAR_SECRET}]}}
sinks: {stock: {url: "https://stock.example.com", token: env:STOCK_TOKEN}}
flows:
  issue:
    on: {provider: linear, types: [Issue.create]}
    steps: {reserve: {http: {sink: stock, path: /reservations}, key: event.data.id}}
`, s)
	})
	e := receipt.New{Mode: "live", EventID: "linear-1", Identity: receipt.ByID, Type: "Issue.create", Status: receipt.Received, Signed: []byte(`{"data": {"id": "i-1"}, "webhookTimestamp": 0}`)}
	for _, at := range []string{"1772366400000", "1772366460000"} {
		e.Body = []byte(`{"data": {"id": "i-1"}, "webhookTimestamp": ` + at + `}`)
		kept := r.insert(receipt.Delivery{Source: "board", Provider: "linear", ReceivedAt: time.Now(), Header: http.Header{}, Events: []receipt.New{e}})
		r.starter.Offer([]receipt.Pending{{Ref: event.Ref{ReceiptID: kept[0].ReceiptID, Provider: "linear", Mode: "live", EventID: e.EventID, Type: e.Type}, Source: "board", ReceivedAt: time.Now()}})
		if status := r.status(forge.Event{ID: e.EventID}, receipt.Processed, receipt.NeedsReview); status != receipt.Processed {
			t.Errorf("the receipt is %s: %v", status, r.rows(`select reason from receipts`))
		}
	}
	s.want(t, "POST /reservations flow-request:linear:live:issue:reserve:i-1")
}

// A worker is killed between the steps: after a request was applied and recorded, and before the run learned of it. The
// next worker continues, and each effect happens once.
func TestConfiguredFlow_WorkerKilledBetweenSteps_EachOnce(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before the request": true, "after the request": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t, nil)
			r := newIdleRig(t, false, func(c *config.Config) { flowing(t, c, examples(t)[exampleOrder], s) })
			g := newGate(before)
			id := branchSeed("killed-" + strings.Fields(name)[0]) // a recording adds no random part
			g.hold(id, "flow-request")
			kill := r.hire(g)
			e, workflowID := r.paid("shop", "shopify", "orders/paid", id, orderPaid)
			r.until("the request is held up", func() bool { return g.holding() == 1 })
			kill()
			r.work()
			if result := r.result(workflowID, ""); result.Outcome != "processed" {
				t.Errorf("result %+v", result)
			}
			r.status(e, receipt.Processed)
			s.want(t, reserved, labelled)
		})
	}
}

// A run keeps the version of the flow with which it began. A parked run that is retried after the file has changed sends
// the request of the first version, from a process that has only the second.
func TestConfiguredFlow_Changed_RunKeepsVersion(t *testing.T) {
	t.Parallel()
	s := newStores(t, map[string][]int{"POST /labels": {400}})
	text := examples(t)[exampleOrder]
	r := newIdleRig(t, false, func(c *config.Config) { flowing(t, c, text, s) })
	kill := r.hire()
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("versions"), orderPaid)
	r.status(e, receipt.Dead)
	r.until("Temporal has recorded the park", func() bool { // a task without a recorded end is repeated from its start
		return slices.ContainsFunc(r.history(workflowID, "").Events, func(e *historypb.HistoryEvent) bool {
			return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
		})
	})
	kill()
	flowing(t, r.Config, strings.Replace(text, `{"order": event.id, "reservation"`, `{"changed": event.id, "reservation"`, 1), s)
	r.hire()
	r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	s.want(t, reserved, strings.Replace(labelled, ":label:5678901234567890123 ", ":label:5678901234567890123:g2 ", 1))
}

// A step begins when the steps before it are done, even if another step is still being retried.
func TestConfiguredFlow_SlowStep_DelaysOnlyItsOwn(t *testing.T) {
	t.Parallel()
	s := newStores(t, map[string][]int{"POST /slow": slices.Repeat([]int{503}, 2)})
	text := strings.Replace(examples(t)[exampleOrder], "      label:\n", "      slow:\n        http: {sink: ship, path: /slow}\n        key: \"string(event.id)\"\n      label:\n", 1)
	r := newRig(t, func(c *config.Config) {
		flowing(t, c, text, s)
		c.Sinks["ship"].Retries = config.Retries{InitialInterval: time.Hour, MaxInterval: time.Hour, MaxElapsed: 24 * time.Hour}
	})
	r.paid("shop", "shopify", "orders/paid", branchSeed("slow"), orderPaid)
	r.until("the label is ordered while the slow step waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.calls, "POST /labels 201")
	})
	s.want(t, reserved, labelled)
}

// The second example opens its task, and ignores other issues.
func TestConfiguredFlow_TaskExample(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[exampleTask], newStores(t, nil)) })
	e, _ := r.paid("code", "github", "issues.opened", branchSeed("incident"), `{"issue": {"id": 41, "title": "It burns", "labels": [{"name": "incident"}]}}`)
	r.status(e, receipt.Processed)
	e, _ = r.paid("code", "github", "issues.opened", branchSeed("question"), `{"issue": {"id": 42, "title": "Why?", "labels": []}}`)
	r.status(e, receipt.Processed)
	got := r.rows(`select concat_ws('|', object, title, state, round(extract(epoch from due_by - created_at) / 600) * 10) from tasks where kind = 'flow'`)
	if want := []string{"github:live:incident:triage:41|Triage It burns|open|60"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if _, err := process.Sources(r.Config, providers); err != nil {
		t.Errorf("the sources: %v", err)
	}
}

// Two items with one key park the run before any effect, and so do more items than a flow may have.
func TestConfiguredFlow_List_Parks(t *testing.T) {
	t.Parallel()
	many := `{"sku": "s", "quantity": 1}`
	for name, tt := range map[string]struct{ body, reason string }{
		"equal keys": {strings.Replace(threeLines, `"cap"`, `"mug"`, 1), `flow_fault: flow book-tickets, steps.book.key: the items 1 and 3 have the same key`},
		"too many":   {`{"id": 1, "line_items": [` + strings.Repeat(many+", ", 100) + many + `]}`, "steps.book.for_each: the list has 101 items, more than 100"},
		"no list":    {`{"id": 1, "line_items": 7}`, "flow_fault: flow book-tickets, steps.book.for_each"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t, nil)
			r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[exampleList], s) })
			e, _ := r.paid("shop", "shopify", "orders/paid", branchSeed("list-"+strings.ReplaceAll(name, " ", "-")), tt.body)
			r.status(e, receipt.NeedsReview)
			if got := r.rows(`select reason from receipts`); !strings.Contains(got[0], tt.reason) {
				t.Errorf("parked because %q, want %q", got, tt.reason)
			}
			s.want(t)
		})
	}
}
