package flowtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// relayBranch is one path through Relay with two destinations. The destination lake may fail.
type relayBranch struct {
	name string
	// lake lists the first answers of the destination named lake. Later requests are accepted.
	lake   []int
	parks  receipt.Status
	decide string
	// tries is the number of requests to lake, and state is the final state of its delivery.
	tries int
	state string
}

var relayBranches = []relayBranch{
	{name: "happy", tries: 1, state: "done"},
	{name: "escalated", lake: []int{503}, tries: 2, state: "done"},
	{name: "dead-retry", lake: []int{503, 500, 429}, parks: receipt.Dead, decide: workflows.UpdateRetry, tries: 4, state: "done"},
	{name: "dead-skip", lake: []int{503, 503, 503}, parks: receipt.Dead, decide: workflows.UpdateSkip, tries: 3, state: "skipped"},
	{name: "gone-retry", lake: []int{410}, parks: receipt.Dead, decide: workflows.UpdateRetry, tries: 2, state: "done"},
}

// The test covers every branch of Relay, from a request that GitHub signs to destinations that verify pawl's
// signature. Each destination receives the provider's bytes, a failing destination does not affect the other
// destination, and neither a decision nor a reset delivers an accepted event again.
func TestRelay_EveryBranch(t *testing.T) {
	t.Parallel()
	for _, b := range relayBranches {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			crm, lake := newDestination(t), newDestination(t, b.lake...)
			r := newRig(t, func(c *config.Config) { relaying(t, c, map[string]*destination{"crm": crm, "lake": lake}) })
			id := "evt_" + branchSeed(b.name)
			e, workflowID := r.opened(id)
			if b.parks != "" {
				r.status(e, b.parks)
				if got := r.rows(`select reason from receipts`); !strings.Contains(got[0], "relay is ") {
					t.Errorf("parked because %q", got[0])
				}
				crm.took(t, e.Body, 1)
				lake.took(t, e.Body, 0)
				r.decide(workflowID, b.decide, workflows.DecisionInput{})
			}
			if result := r.result(workflowID, ""); result.Outcome != "processed" || len(result.Effects) != 2 {
				t.Errorf("result %+v", result)
			}
			history := r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID())
			noCanary(t, history)
			if recording() {
				writeGolden(t, "Relay", b.name, history)
			}
			check := func() {
				t.Helper()
				crm.took(t, e.Body, 1)
				delivered := map[string]int{"done": 1}[b.state]
				lake.took(t, e.Body, delivered)
				if crm.calls() != 1 || lake.calls() != b.tries {
					t.Errorf("called crm %d and lake %d times, want 1 and %d", crm.calls(), lake.calls(), b.tries)
				}
				got := r.rows(`select split_part(key, ':', -1) || ' ' || state from effects order by key`)
				if want := []string{"crm done", "lake " + b.state}; !slices.Equal(got, want) {
					t.Errorf("deliveries %v, want %v", got, want)
				}
			}
			check()
			r.resetAndCheck(branch{outcome: "processed"}, e, workflowID, history)
			check()
		})
	}
}

// relaying adds a GitHub source that relays to the destinations.
func relaying(t *testing.T, c *config.Config, to map[string]*destination) {
	t.Helper()
	dir := t.TempDir()
	text := "sources: {github: {provider: github, mode: live, secrets: [{value: env:GITHUB_SECRET}]}}\ndestinations:\n"
	env := map[string]string{"DATABASE_URL": "postgres://localhost/unused", "GITHUB_SECRET": testSecret}
	for name, destination := range to {
		env[strings.ToUpper(name)] = destination.secret
		text += "  " + name + ": {url: " + destination.URL + ", sources: [github], timeout: 5s, retries: {initial_interval: 10ms, max_interval: 40ms}, secrets: [{value: env:" + strings.ToUpper(name) + "}]}\n"
	}
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	relaying, err := config.Load(file, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, providers)
	if err != nil {
		t.Fatal(err)
	}
	c.Sources["github"] = relaying.Sources["github"]
	maps.Copy(c.Destinations, relaying.Destinations)
}

// opened sends the event issues.opened from GitHub to the rig's ingress.
func (r *rig) opened(id string) (e forge.Event, workflowID string) {
	r.Helper()
	e, err := forge.New(forge.Params{
		Provider: github.Provider, Type: "issues.opened", EventID: id, Live: true, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}, "")
	if err != nil {
		r.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		r.Fatal(err)
	}
	body["sender"] = map[string]any{"login": canary, "email": canary + "@personal.example"}
	if e.Body, err = json.Marshal(body); err != nil {
		r.Fatal(err)
	}
	r.post(r.front(), "github", e, http.StatusAccepted)
	r.until("the run is started", func() bool {
		found := r.rows(`select workflow_id from runs`)
		if len(found) == 1 {
			workflowID = found[0]
		}
		return workflowID != ""
	})
	return e, workflowID
}

// front returns the URL of an ingress with the rig's sources.
func (r *rig) front() string {
	r.Helper()
	sources, err := process.Sources(r.Config, providers)
	if err != nil {
		r.Fatal(err)
	}
	server, err := ingress.New(ingress.Config{
		Sources: sources, Receipts: r.Receipts, Dispatch: r.starter.Offer, Limits: process.Limits(r.Config.Ingress),
	})
	if err != nil {
		r.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	r.Cleanup(front.Close)
	return front.URL
}

// post sends e in the name of a source's provider, and checks the answer.
func (r *rig) post(front, source string, e forge.Event, answer int) {
	r.Helper()
	target := forge.Target{URL: front + "/hooks/" + source, Secret: testSecret, Sign: providers[r.Config.Sources[source].Provider].Sign}
	for busy, repeat := false, true; repeat; {
		if err := target.Send(r.Context(), []forge.Event{e}, 0, 1, func(sent forge.Result) {
			repeat = sent.Status == http.StatusServiceUnavailable // a provider repeats it
			if busy = busy || repeat; !repeat && sent.Status != answer && (!busy || sent.Status != http.StatusOK) {
				r.Errorf("%s answered %s, %v; want %d", source, sent.Outcome(), sent.Err, answer)
			}
		}); err != nil {
			r.Fatal(err)
		}
	}
}

// Stripe sends one event to two endpoints. The event runs once. Each destination of either source receives the event
// once, even a destination of both sources.
func TestRelay_TwoSourcesWantOneEvent_BothRelay(t *testing.T) {
	t.Parallel()
	crm, lake, both := newDestination(t), newDestination(t), newDestination(t)
	r := newRig(t, func(c *config.Config) {
		relaying(t, c, map[string]*destination{"crm": crm, "lake": lake, "both": both})
		c.Sources["second"] = c.Sources["stripe"]
		relay(c, "stripe", "crm", "both")
		relay(c, "second", "lake", "both")
	})
	front := r.front()
	e := purchase(t, "two-"+uuid.NewString()[:8], "invoice.paid", "starter")
	r.post(front, "stripe", e, http.StatusAccepted)
	r.status(e, receipt.Processed)
	for range 2 { // the second request is a retry by the provider
		r.post(front, "second", e, http.StatusOK)
		r.post(front, "stripe", e, http.StatusOK)
	}
	r.until("the second source's receipt is processed", func() bool {
		return slices.Equal(r.rows(`select event_id || ' ' || status from receipts where source = 'second'`), []string{e.ID + "~second processed"})
	})
	for _, c := range []*destination{crm, lake, both} {
		c.took(t, e.Body, 1)
	}
	if n := len(r.rows(`select id::text from receipts`)); n != 2 || r.done("finance") != 1 || r.done("email") != 1 {
		t.Errorf("%d receipts, %d entries, %d mails; want the flow once, and a receipt for each source", n, r.done("finance"), r.done("email"))
	}
}

// Two destinations select events of one source by type and condition. Every event is delivered twice, and arrives once at
// the destinations that select it. A condition that cannot be evaluated fails the delivery to its destination only. After
// the condition is corrected, a retry delivers the event or skips the delivery, as the preview has reported.
func TestRelay_Selection_OnceWhereSelected(t *testing.T) {
	t.Parallel()
	crm, lake := newDestination(t), newDestination(t)
	r := newIdleRig(t, false, func(c *config.Config) {
		relaying(t, c, map[string]*destination{"crm": crm, "lake": lake})
		choosing(t, c, "crm", `event.priority > 5`, "issues.*")
		choosing(t, c, "lake", "", "push", "issues.opened")
	})
	kill := r.hire()
	front := r.front()
	send := func(id, eventType, body string) forge.Event {
		e := forge.Event{ID: id, Type: eventType, ContentType: "application/json", Body: []byte(body)}
		r.post(front, "github", e, http.StatusAccepted)
		r.post(front, "github", e, http.StatusOK)
		return e
	}
	issue := `, "issue": {"id": 1, "updated_at": "2026-03-01T12:00:00Z"}, "sender": {"login": "` + canary + `"}}`
	high := send("evt_high", "issues.opened", `{"action": "opened", "priority": 9`+issue)
	low := send("evt_low", "issues.closed", `{"action": "closed", "priority": 1`+issue)
	push := send("evt_push", "push", `{"ref": "refs/heads/main", "after": "f00"}`)
	star := send("evt_star", "star.created", `{"action": "created", "priority": 9}`)
	vague := send("evt_vague", "issues.opened", `{"action": "opened"`+issue)
	bulk := send("evt_bulk", "issues.opened", `{"action": "opened", "bulk": true`+issue)
	for _, e := range []forge.Event{high, low, push, star} {
		r.status(e, receipt.Processed)
	}
	for _, e := range []forge.Event{vague, bulk} {
		r.status(e, receipt.Dead)
		if got := r.rows(`select reason from receipts where event_id = $1`, e.ID); !strings.Contains(got[0], "destinations.crm.when: event.priority is missing; use has() or ? if it is optional: correct the condition of destination crm and retry, or skip the delivery") {
			t.Errorf("%s parked because %q", e.ID, got)
		}
	}
	crm.tookAll(t, high)
	lake.tookAll(t, high, push, vague, bulk)
	reasons := r.rows(`select event_id || ' ' || reason from receipts where reason_code = 'not_selected' order by 1`)
	if want := []string{
		"evt_low not_selected: no destination of source github selects the event: the conditions of the destinations for the type issues.closed are false",
		"evt_star not_selected: no destination of source github selects the type star.created",
	}; !slices.Equal(reasons, want) {
		t.Errorf("reasons %q, want %q", reasons, want)
	}
	for _, workflowID := range r.rows(`select distinct workflow_id from runs where workflow_id ~ '(high|vague|bulk)$'`) {
		noCanary(t, r.history(workflowID, ""))
	}

	kill()
	choosing(t, r.Config, "crm", `event.?priority.orValue(7) > 5 && !event.?bulk.orValue(false)`, "issues.*")
	choosing(t, r.Config, "lake", "false") // concerns new events only
	for e, want := range map[*forge.Event]workflows.Will{&vague: workflows.WillRun, &bulk: workflows.WillLeave} {
		said, err := r.operator().Preview(t.Context(), decide.Decision{Target: e.ID, Verb: workflows.UpdateRetry})
		if err != nil || said.Outcome != string(receipt.Processed) || len(said.Effects) != 2 || said.Counts[want] != 1 || said.Counts[workflows.WillStay] != 1 {
			t.Errorf("preview of %s: %+v, %v; want that crm %s", e.ID, said, err, want)
		}
	}
	r.work()
	for _, e := range []forge.Event{vague, bulk} {
		r.mustAsk(workflows.UpdateRetry, e)
		r.status(e, receipt.Processed)
	}
	crm.tookAll(t, high, vague)
	lake.tookAll(t, high, push, vague, bulk)
	got := r.rows(`select split_part(key, ':', -2) || ' ' || state || ' ' || coalesce(error, '') from effects where key like '%:crm' order by 1`)
	if want := []string{"evt_bulk skipped destination crm does not select the event: its types exclude the event, or its condition is false", "evt_high done ", "evt_vague done "}; !slices.Equal(got, want) {
		t.Errorf("deliveries %q, want %q", got, want)
	}
	late := send("evt_late", "issues.opened", `{"action": "opened", "n": 1`+issue)
	r.status(late, receipt.Processed)
	crm.tookAll(t, high, vague, late)
	lake.tookAll(t, high, push, vague, bulk)
}

// choosing sets the selection of a destination.
func choosing(t *testing.T, c *config.Config, name, when string, types ...string) {
	t.Helper()
	d := c.Destinations[name]
	d.Types, d.Condition = types, nil
	if when != "" {
		var faults []flow.Fault
		if d.Condition, faults = flow.CompileCondition("destinations."+name+".when", when); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	c.Destinations[name] = d
}

// tookAll checks that the bodies of these events were accepted, each once, and no other.
func (c *destination) tookAll(t *testing.T, events ...forge.Event) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got, want []string
	for _, bodies := range c.taken {
		for _, body := range bodies {
			got = append(got, string(body))
		}
	}
	for _, e := range events {
		want = append(want, string(e.Body))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(c.taken) != len(events) || len(c.forged) > 0 {
		t.Errorf("took %q under %d IDs, want %q (forged: %v)", got, len(c.taken), want, c.forged)
	}
}

// destination is an HTTP endpoint that verifies the Standard Webhooks signature of each delivery, with pawl's own
// verifier, and stores the accepted messages.
type destination struct {
	*httptest.Server
	secret string

	mu     sync.Mutex
	first  []int // the first answers; later messages are accepted
	called int
	taken  map[string][][]byte // accepted bodies by webhook-id
	forged []error
}

func newDestination(t *testing.T, first ...int) *destination {
	t.Helper()
	c := &destination{
		secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte(uuid.NewString())),
		first:  first, taken: map[string][][]byte{},
	}
	verifier, err := standardwebhooks.Provider.New(webhook.Settings{Source: "destination", Secrets: []webhook.Secret{{Label: "a", Value: c.secret}}})
	if err != nil {
		t.Fatal(err)
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = verifier.Verify(&webhook.Request{Method: r.Method, Header: r.Header, Body: body, ReceivedAt: time.Now()})
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.called++
		switch {
		case err != nil:
			c.forged = append(c.forged, err)
			w.WriteHeader(http.StatusUnauthorized)
		case len(c.first) > 0:
			w.WriteHeader(c.first[0])
			c.first = c.first[1:]
		default:
			id := r.Header.Get("webhook-id")
			c.taken[id] = append(c.taken[id], body)
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *destination) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.called
}

// took checks that n messages were accepted, each once and with the provider's body.
func (c *destination) took(t *testing.T, body []byte, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) != n {
		t.Errorf("took %d messages, want %d", len(c.taken), n)
	}
	for id, bodies := range c.taken {
		if len(bodies) != 1 || !bytes.Equal(bodies[0], body) {
			t.Errorf("took %s %d times, the first as %q, want once as %q", id, len(bodies), bodies[0], body)
		}
	}
	for _, err := range c.forged {
		t.Errorf("a delivery's signature: %v", err)
	}
}
