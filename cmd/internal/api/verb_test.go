package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// post makes a decision as an operator.
func (s *served) post(path, id, query, body string, header ...string) answered {
	s.t.Helper()
	return s.ask(http.MethodPost, path, id, query, "operator", body, header...)
}

// A repeated request is the same decision. A dry run decides nothing.
func TestDecide_OncePerKey_DryRunNever(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	actions := func() (n int) {
		if err := s.db.QueryRow(t.Context(), `select count(*) from operator_actions`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	note := func(key string) decide.Answer {
		return want[decide.Answer](t, s.post("/tasks/{id}/note", "dp/1", "", `{"reason":"called them","kind":"dispute"}`, "Idempotency-Key", key), http.StatusOK)
	}
	if first, again, other := note("k-1"), note("k-1"), note("k-2"); first.Repeated || !again.Repeated || other.Repeated || actions() != 2 || first.Actor != "ada" || first.Request != "k-1" {
		t.Errorf("%+v, %+v, %+v with %d actions; want two decisions", first, again, other, actions())
	}
	if p := want[Problem](t, s.post("/tasks/{id}/take", "dp/1", "", `{"reason":"x"}`, "Idempotency-Key", "k-1"), 422); p.Code != "reused" || !strings.Contains(p.Detail, "belongs to note-task of dp/1") {
		t.Errorf("a key of another verb: %+v", p)
	}
	for path, id := range map[string]string{"/events/{id}/start": "evt_3", "/sources/{id}/pause": "stripe", "/events/{id}/cancel": "evt_2"} {
		p := want[decide.Preview](t, s.post(path, id, "dry_run=true", ""), http.StatusOK)
		if (p.Refused != "") != (id == "evt_2") || actions() != 2 {
			t.Errorf("a dry run of %s: %+v, with %d actions", path, p, actions())
		}
	}
	ran := want[decide.Answer](t, s.post("/events/{id}/start", "evt_3", "", `{"reason":"wanted after all"}`), http.StatusOK)
	var status string
	if err := s.db.QueryRow(t.Context(), `select status from receipts where event_id = 'evt_3'`).Scan(&status); err != nil || status != "received" || actions() != 3 {
		t.Errorf("%+v: it is %s (%v), with %d actions", ran, status, err, actions())
	}
}

// taking simulates a Temporal that accepts the runs of jobs.
type taking struct{ decide.Temporal }

func (taking) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, nil
}

// A program decides about many events: it reads the preview, and confirms the number of events.
func TestJobs_StartedByFilter(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	s.operator.Temporal = taking{}
	asked := func(more string) string { return `{"verb":"retry","status":"dead","source":"stripe"` + more + `}` }
	dry := want[job.Preview](t, s.post("/jobs", "", "dry_run=true", asked("")), http.StatusOK)
	if dry.Count != 1 || dry.Events[0].EventID != "evt_1" || dry.Previewed != 1 {
		t.Errorf("a dry run: %+v", dry)
	}
	for body, code := range map[string]string{
		asked(`,"reason":"x"`): "count", asked(`,"reason":"x","count":"2"`): "count", asked(`,"count":"1"`): "invalid",
		asked(`,"reason":"x","count":"1","rate":"1000"`): "invalid", asked(`,"reason":"x","count":"1","since":"yesterday"`): "invalid",
		asked(`,"reason":"x","count":"1","until":"1h"`):                   "invalid",
		asked(`,"reason":"x","count":"1","until":"2020-01-01T00:00:00Z"`): "count",
		`{"verb":"retry","status":"processed","reason":"x","count":"1"}`:  "invalid", `{"verb":"pause-sink","status":"dead","reason":"x","count":"1"}`: "invalid",
	} {
		if got := s.post("/jobs", "", "", body); got.StatusCode < 400 || want[Problem](t, got, got.StatusCode).Code != code {
			t.Errorf("%s: %d, %s; want %s", body, got.StatusCode, got.body, code)
		}
	}
	whole := asked(`,"reason":"finance is back","count":"1"`)
	if got := s.ask(http.MethodPost, "/jobs", "", "", "viewer", whole); got.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer starts a job: %d", got.StatusCode)
	}
	first := want[decide.Answer](t, s.post("/jobs", "", "", whole, "Idempotency-Key", "night"), http.StatusOK)
	s.exec(`update receipts set status = 'processed' where event_id = 'evt_1'`) // the job is complete
	again := want[decide.Answer](t, s.post("/jobs", "", "", whole, "Idempotency-Key", "night"), http.StatusOK)
	if first.Target != "night" || first.Repeated || !again.Repeated {
		t.Errorf("%+v, and again %+v", first, again)
	}
	if got := s.get("/jobs/{id}", "night", ""); !strings.Contains(string(got.body), `"name":"evt_1"`) || !strings.Contains(string(got.body), `"items":1`) {
		t.Errorf("the job: %s", got.body)
	}
}

// If a decision requires two people, the API stores the first request, executes the second, and rejects requests with a
// token.
func TestDecide_TwoPersons_Accepted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	e, err := forge.New(forge.Params{Provider: stripe.Provider, EventID: "evt_1", Type: "invoice.paid", Account: "acme", Live: true, Amount: 240000}, "")
	if err != nil {
		t.Fatal(err)
	}
	receipts := receipt.NewStore(s.db, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(receipts.Close)
	if _, err := receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Status: receipt.Received, Body: e.Body}}}); err != nil {
		t.Fatal(err)
	}
	s.exec(`update receipts set status = 'needs_review', reason = 'id_collision: x'`)
	made := want[decide.Answer](t, s.ask(http.MethodPost, "/tokens/{id}/new", "shop", "", "admin", `{"reason":"x","role":"finance","expires":"90d","networks":"all"}`), http.StatusOK)
	approve := func(role, pending string, header ...string) answered {
		t.Helper()
		body := `{"reason":"I know both"}`
		if pending != "" {
			body = `{"reason":"I know both","pending":"` + pending + `"}`
		}
		return s.ask(http.MethodPost, "/events/{id}/approve", "evt_1", "", role, body, header...)
	}
	bearer := "Bearer " + made.Result.(map[string]any)["token"].(string)
	if p := want[Problem](t, approve("", "", "Authorization", bearer), http.StatusConflict); !strings.Contains(p.Detail, "sign in to the console") {
		t.Errorf("a token: %+v", p)
	}
	first := want[decide.Answer](t, approve("finance", "", "Idempotency-Key", "k-1"), http.StatusAccepted)
	listed := want[Page[pending.Decision]](t, s.get("/approvals", "", ""), http.StatusOK)
	if first.Pending == nil || len(listed.Items) != 1 || listed.Items[0].ID != first.Pending.ID {
		t.Errorf("ada: %+v, listed %+v", first, listed)
	}
	if p := want[Problem](t, approve("finance", "", "Name", "bob"), http.StatusConflict); !strings.Contains(p.Detail, "confirm it (pending "+first.Pending.ID) {
		t.Errorf("bob, who confirms nothing: %+v", p)
	}
	// An idempotency key belongs to one person, so bob can use the same key for another decision.
	if second := want[decide.Answer](t, approve("finance", first.Pending.ID, "Name", "bob", "Idempotency-Key", "k-1"), http.StatusOK); second.Pending != nil || second.Actor != "bob" {
		t.Errorf("bob: %+v", second)
	}
}

// A refusal has the same text as on the command line, and its choices are valid API requests.
func TestDecide_Refused_ChoicesWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	p := want[Problem](t, s.post("/events/{id}/start", "evt_2", "", `{"reason":"x"}`), http.StatusConflict)
	if p.Code != "refused" || !strings.HasPrefix(p.Detail, "evt_2 is processed") || len(p.Choices) != 1 || p.Choices[0].Post != "/api/v1/events/evt_2/replay" {
		t.Fatalf("%+v, want that it can be replayed", p)
	}
	body, err := json.Marshal(p.Choices[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	if made := want[decide.Preview](t, s.post("/events/{id}/replay", "evt_2", "dry_run=true", string(body)), http.StatusOK); made.Failed() {
		t.Errorf("the choice is refused: %+v", made)
	}
	p = want[Problem](t, s.post("/events/{id}/start", "evt_1", "", `{"reason":"x"}`), http.StatusConflict)
	for _, c := range p.Choices {
		if c.Post == "" || c.Body["reason"] != "REASON" || strings.Contains(strings.Join(c.Command, " "), "--effect") != (c.Body["effect"] != "") {
			t.Errorf("%+v is no request", c)
		}
	}
}

// A verb rejects fields that it does not use.
func TestDecide_NotUnderstood(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	for _, c := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/events/{id}/start", `{}`, 400, "invalid"}, {"/events/{id}/start", `{"reason":"x","effekt":"y"}`, 400, "invalid"}, {"/events/{id}/start", `[1]`, 400, "invalid"},
		{"/events/{id}/start", `{"reason":1}`, 400, "invalid"}, {"/events/{id}/mark-done", `{"reason":"x"}`, 400, "invalid"}, {"/accounts/{id}/hold", `{"reason":"x","mode":"dead"}`, 400, "invalid"},
		{"/events/{id}/start", `{"reason":"` + strings.Repeat("x", maxBody) + `"}`, 413, "too_large"}, {"/sinks/{id}/pause", `{"reason":"x"}`, 404, "unknown"},
		{"/jobs/{id}/pause", `{"reason":"x"}`, 404, "unknown"},
	} {
		if p := want[Problem](t, s.post(c.path, "evt_3", "", c.body), c.status); p.Code != c.code {
			t.Errorf("%s with %.40s: %+v, want %s", c.path, c.body, p, c.code)
		}
	}
	for header, value := range map[string]string{"Content-Type": "text/plain", "Idempotency-Key": "a b"} {
		if got := s.post("/events/{id}/start", "evt_3", "", `{"reason":"x"}`, header, value); got.StatusCode < 400 || got.StatusCode > 415 {
			t.Errorf("with %s %s: answered %d", header, value, got.StatusCode)
		}
	}
	if got := s.post("/events/{id}/start", "evt_3", "dry_run=perhaps", `{"reason":"x"}`); got.StatusCode != 400 {
		t.Errorf("a dry run, perhaps: answered %d", got.StatusCode)
	}
}

// The unmasked payload is returned to a caller with the right to reveal it, after the audit trail contains the
// request.
func TestDecide_Reveal(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	a := want[struct {
		Result struct{ Payload struct{ Email string } }
	}](t, s.ask(http.MethodPost, "/events/{id}/reveal", "evt_1", "", "reveal", `{"reason":"the customer asks"}`), http.StatusOK)
	var actor string
	if err := s.db.QueryRow(t.Context(), `select actor from operator_actions where action = 'reveal' and target = 'evt_1'`).Scan(&actor); err != nil || actor != "ada" || a.Result.Payload.Email != "ada@example.com" {
		t.Errorf("%+v, revealed by %q (%v)", a, actor, err)
	}
	if got := s.ask(http.MethodPost, "/events/{id}/reveal", "evt_1", "dry_run=true", "operator", ""); got.StatusCode != http.StatusForbidden {
		t.Errorf("a dry run without the right is answered %d", got.StatusCode)
	}
}

// The preview of an assignment contains the entry and changes nothing. The preview and the decision warn about a new
// account.
func TestDecide_Assign_PreviewAndWarning(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.unassigned("live", "pi_1", 1500)
	got := want[decide.Preview](t, s.ask(http.MethodPost, "/payments/{id}/assign", "pi_1", "dry_run=true", "finance", `{"account":"acme"}`), http.StatusOK)
	if got.Refused != "" || !slices.ContainsFunc(got.Effects, func(e workflows.PreviewedEffect) bool { return e.Key == "finance-export:stripe:live:pi_1" }) {
		t.Errorf("the preview is %+v", got)
	}
	if list, err := billing.New(s.db).ListUnassigned(t.Context(), "", 0, 10); err != nil || len(list) != 1 {
		t.Errorf("after the preview %+v, %v are unassigned, want the payment", list, err)
	}
	decided := want[decide.Answer](t, s.ask(http.MethodPost, "/payments/{id}/assign", "pi_1", "", "finance", `{"account":"acme","reason":"the bank's statement"}`), http.StatusAccepted)
	if !strings.HasPrefix(got.Warning, "No event of account acme has arrived") || decided.Warning != got.Warning {
		t.Errorf("the preview warns %q, the decision %q; want the same warning", got.Warning, decided.Warning)
	}
}

// The API lists unassigned money with its amount, separately for live and test mode.
func TestPayments_Unassigned_Listed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.unassigned("live", "pi_1", 1500)
	s.unassigned("test", "pi_2", 700)
	for mode, id := range map[string]string{"live": "pi_1", "test": "pi_2"} {
		got := want[Page[billing.Money]](t, s.get("/payments/unassigned", "", "mode="+mode), http.StatusOK)
		if len(got.Items) != 1 || got.Items[0].ID != id || got.Items[0].Amount == 0 || got.Items[0].Currency != "usd" {
			t.Errorf("%s: %+v, want %s", mode, got.Items, id)
		}
	}
	if got := want[Page[billing.Money]](t, s.get("/payments/unassigned", "", ""), http.StatusOK); len(got.Items) != 2 {
		t.Errorf("of both modes: %+v", got.Items)
	}
}

// unassigned stores a payment without a known account.
func (s *served) unassigned(mode, id string, amount int64) {
	s.t.Helper()
	receiptID := uuid.NewString()
	if _, err := s.db.Exec(s.t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status)
		values ($1, 'stripe', 'stripe', $2, $3, 'id', 'charge.succeeded', $4, now(), '\x01', 'processed')`, receiptID, mode, "evt_"+id, id); err != nil {
		s.t.Fatal(err)
	}
	paid := fact.Fact{
		Subject: fact.Subject{Provider: "stripe", Mode: mode, EventID: "evt_" + id, EventType: "charge.succeeded", ReceiptID: receiptID, OccurredAt: time.Now().Add(-time.Hour)},
		Kind:    fact.PaymentSeen, Object: id, Rank: fact.RankEnd, Origin: fact.FromEvent,
		Data: fact.Data{Payment: &fact.Payment{Status: "succeeded", Amount: amount, Currency: "usd", NoInvoice: true}},
	}
	err := pgx.BeginFunc(s.t.Context(), s.db, func(tx pgx.Tx) error {
		_, err := billing.Apply(s.t.Context(), tx, []fact.Fact{paid}, fact.Policy{}, "apply-facts:"+id, time.Time{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
