package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/operatortest"
	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// served is an API over a database.
type served struct {
	t        testing.TB
	db       *pgxpool.Pool
	operator *decide.Operator
	accesses *account.Accesses
	handler  http.Handler
	url      string
	doc      *openapi3.T
	seen     map[string]bool
}

// setup serves an API. The header Role sets the role of a request without a token.
func setup(t testing.TB) *served {
	t.Helper()
	owner := schematest.New(t)
	db := schematest.As(t, owner, schematest.Console)
	cfg := &config.Config{API: config.API{StaleIfError: 15 * time.Minute}, Sources: map[string]config.Source{
		"stripe": {Provider: "stripe", Mode: webhook.Live, Secrets: []config.Secret{{Label: "first"}}},
	}}
	worker := schematest.As(t, owner, schematest.Worker)
	receipts := receipt.NewStore(worker, receipt.Options{})
	t.Cleanup(receipts.Close)
	log := slog.New(slog.DiscardHandler)
	o := &decide.Operator{
		Verbs: operator.Verbs, DB: worker, Audit: audit.New(worker, log), Outlook: process.Outlook(cfg, worker, receipts),
		FourEyes: true,
		Places:   map[string][]string{decide.Sink: {"finance"}, decide.Source: {"stripe"}},
	}
	operatortest.Serve(t, o)
	tokens, accesses := token.NewTokens(db, time.Minute), account.NewAccesses(db, cfg.API.StaleIfError)
	e := echo.New()
	if err := Mount(e.Group(Prefix), Options{
		Operator: operatortest.Console(db), Config: cfg, Accesses: accesses, Log: log,
		Person: func(r *http.Request) (*decide.Person, error) {
			if named := r.Header.Get("Role"); named != "" {
				name := cmp.Or(r.Header.Get("Name"), "ada")
				return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerLocal, Subject: name}, Name: name,
					Roles: []role.Role{role.Role(named)}}, nil
			}
			text, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !is {
				return nil, nil
			}
			return tokens.Person(r.Context(), text, "127.0.0.1")
		},
	}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return &served{t, owner, o, accesses, e, server.URL, loaded(t), map[string]bool{}}
}

func (s *served) exec(statements ...string) {
	s.t.Helper()
	for _, sql := range statements {
		if _, err := s.db.Exec(s.t.Context(), sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// away closes all connections to the database, and makes the server reject new ones.
func (s *served) away() {
	s.t.Helper()
	options := s.db.Config().ConnConfig
	name := options.Database
	options.Database = "postgres"
	conn, err := pgx.ConnectConfig(s.t.Context(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	for _, sql := range []string{`alter database ` + pgx.Identifier{name}.Sanitize() + ` allow_connections false`,
		`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '` + name + `'`} {
		if _, err := conn.Exec(s.t.Context(), sql); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// answered is a response that was checked against the OpenAPI document.
type answered struct {
	*http.Response
	body []byte
}

// ask sends a request with a role, and checks the response against the document. path is the path in the document, and
// id the value of its segment.
func (s *served) ask(method, path, id, query, role, body string, header ...string) answered {
	s.t.Helper()
	at := s.url + Prefix + regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(path, url.PathEscape(id))
	if query != "" {
		at += "?" + query
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if role != "" {
		r.Header.Set("Role", role)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	item := s.doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil || method == http.MethodHead {
		return answered{res, got}
	}
	s.seen[fmt.Sprintf("%s %d", path, res.StatusCode)] = true
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: map[string]string{"id": id}, Route: &routers.Route{
		Spec: s.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method),
	}}
	err = openapi3filter.ValidateResponse(s.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(got)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		s.t.Errorf("%s %s answered %d with a response that is not in the document: %v\n%s", method, at, res.StatusCode, err, got)
	}
	return answered{res, got}
}

// get sends a request as a viewer.
func (s *served) get(path, id, query string, header ...string) answered {
	s.t.Helper()
	return s.ask(http.MethodGet, path, id, query, "viewer", "", header...)
}

// want decodes a response and fails the test unless it has the given status.
func want[T any](t testing.TB, a answered, status int) (v T) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("answered %d, want %d: %s", a.StatusCode, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// world contains at least one item for every read.
var world = []string{
	`insert into accounts (mode, id, provider, customer, target_version, target_state, target_plan, target_quantity, target_features) values
		('live', 'acme', 'stripe', 'cus_1', 2, 'active', 'pro', 3, '{projects,sso}'), ('test', 'acme', 'stripe', 'cus_2', 0, '', '', 0, '{}'),
		('live', 'late', 'stripe', 'cus_3', 4, 'suspended', '', 0, '{}')`,
	`insert into grants (mode, object, account, plan, quantity, ends, because) values ('live', 'sub_1', 'acme', 'pro', 3, now() + interval '30 days', 'evt_1')`,
	`insert into subscriptions (mode, id, account, customer, status, plan, quantity, state) values
		('live', 'sub_1', 'acme', 'cus_1', 'active', 'pro', 3, '{"ID":"sub_1","Status":"active","Plan":"pro","Quantity":3}'),
		('live', 'sub_3', 'late', 'cus_3', 'past_due', 'pro', 1, '{"ID":"sub_3","Status":"past_due","PastDueSince":"2026-01-01T00:00:00Z","EndsAt":"2026-01-22T00:00:00Z","Cause":{"EventID":"evt_late"}}')`,
	`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
		('live', 'in_1', 'acme', 'paid', 49900, 'usd', now(), now(), '{"ID":"in_1","Number":"A/1","Status":"paid","Due":50000,"Paid":49900,"Currency":"usd"}')`,
	`insert into objects (mode, kind, id, account, invoice, state) values ('live', 'refund', 're_1', 'acme', 'in_1', '{"Status":"succeeded","Amount":100,"Currency":"usd"}')`,
	`insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash) values ('finance-export:in_1', 'live', 'acme', 'in_1', 'in_1', 'payment', 49900, 'usd', 49900)`,
	`insert into due (mode, owner, account, object, why, step, at, next_at, provider, event_id, receipt_id, occurred_at) values
		('live', 'sub_1', 'acme', 'sub_1', 'end', 0, '2026-12-24', '2026-12-24', 'stripe', 'evt_1', '00000000-0000-0000-0000-000000000001', now())`,
	`insert into workspaces (mode, account, version, state, plan, quantity, effect_key) values ('live', 'acme', 1, 'active', 'starter', 1, 'w')`,
	`insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason, workflow_id, last_error, waits) values
		('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'dead', 'effect_failed: 451', 'stripe:evt_1', '451 later',
		'{"decisions":["skip","retry","done","compensate"],"effects":[{"key":"receipt-email:stripe:live:in_1","kind":"receipt-email","state":"failed","by_hand":true}]}'),
		('00000000-0000-0000-0000-000000000002', 'stripe', 'stripe', 'live', 'evt_2', 'id', 'invoice.paid', 'in_1', now(), '\x02', 'processed', '', 'stripe:evt_2', '', null),
		('00000000-0000-0000-0000-000000000003', 'stripe', 'stripe', 'live', 'evt_3', 'id', 'invoice.paid', 'in_3', now(), '\x03', 'ignored', 'type_ignored', '', '', null)`,
	`insert into receipt_bodies (receipt_id, headers, body) values ('00000000-0000-0000-0000-000000000001', '{"Content-Type":["application/json"]}', '{"id":"evt_1","email":"ada@example.com","amount":49900}')`,
	`insert into runs (receipt_id, workflow_id, run_id, kind, started_at) values ('00000000-0000-0000-0000-000000000001', 'stripe:evt_1', 'run', 'original', now())`,
	`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error, result) values
		('receipt-email:stripe:live:in_1', 'receipt-email', 'failed', '00000000-0000-0000-0000-000000000001', 'evt_1', 'run', now(), '451 later', null),
		('receipt-email:stripe:live:in_2', 'receipt-email', 'done', '00000000-0000-0000-0000-000000000002', 'evt_2', 'run', now(), '', '{"To":1}'),
		('workspace:x', 'provision-workspace', 'done', '00000000-0000-0000-0000-000000000001', 'evt_1', 'run', now(), '', null)`,
	`insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, error)
		values ('receipt-email:stripe:live:in_1', 1, '00000000-0000-0000-0000-000000000001', 'run', 1, 'failed', now(), '451 later')`,
	`insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency) values
		('00000000-0000-0000-0000-000000000001', 'in_1', true, 'acme', 'cus_1', 'A/1', 49900, 'usd')`,
	`insert into skipped_entries (effect_key, mode, account, object, kind, amount, currency, cash, occurred_at, event_id, actor, reason) values
		('finance-export:in_2', 'live', 'acme', 'in_2', 'payment', 4800, 'usd', 4800, now(), 'evt_2', 'ada', 'booked by hand')`,
	`insert into facts (provider, mode, kind, object, customer, event_id, receipt_id, occurred_at, rank, origin, data)
		values ('stripe', 'live', 'invoice_seen', 'in_1', 'cus_1', 'evt_1', '00000000-0000-0000-0000-000000000001', now(), 3, 'event', '{"Invoice":{"Paid":49900,"Due":50000,"Currency":"usd"}}')`,
	`insert into tasks (mode, kind, object, account, title, state, effect_key, due_by) select 'live', 'dispute', 'dp/' || n, 'acme', 'see to it', 'open', 'k' || n, case when n < 3 then now() + n * interval '1 day' end from generate_series(1, 5) n`,
	`insert into jobs (id, action, filter, who, why, rate, state, items, created_at) select 'job-' || n, 'retry', '{"status":"dead"}', 'ada', 'x', 1, 'paused', 1, '2026-11-01' from generate_series(1, 3) n`,
	`insert into breakers (sink, open, since, reason, probe_at) values ('finance', false, now(), '', now())`,
	`insert into outages (sink, since, until, reason) select 'finance', now() - n * interval '1 day', now() - n * interval '23 hours', 'f.test answered 503' from generate_series(1, 3) n`,
	`insert into outage_events (outage, receipt_id, mode) values (1, '00000000-0000-0000-0000-000000000001', 'live')`,
	`insert into job_items (job, target, name) values ('job-1', '00000000-0000-0000-0000-000000000001', 'evt_1')`,
}

// Each route returns the documented response with the stored data.
func TestRead_EveryRoute(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	want[any](t, s.ask(http.MethodPost, "/sources/{id}/pause", "stripe", "", "operator", `{"reason":"the night is long"}`), http.StatusOK)
	eve := decide.Person{Name: "eve", Roles: []role.Role{role.Viewer}}
	if err := people.Report(t.Context(), s.operator, "host", []decide.Person{eve}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, id, query, says string }{
		{"/accounts/{id}", "cus_1", "mode=live", `"id":"acme"`}, {"/accounts/{id}", "cus_3", "", `"obstacles":[`}, {"/accounts/{id}/access", "acme", "mode=live", `"plan":"pro"`},
		{"/accounts/{id}/access", "cus_3", "", `past due, and its grace period is over`}, {"/accounts/{id}/access", "acme", "mode=test", `"access":"none"`},
		{"/invoices/{id}", "A/1", "", `"paid":49900`}, {"/events", "", "status=dead", `"event_id":"evt_1"`}, {"/events", "", "account=late", `"items":[]`},
		{"/events/{id}", "evt_1", "", `"verdict":"Not finished`}, {"/events/{id}", "evt_3", "", `"verdict":"Ignored`},
		{"/events/{id}/payload", "evt_1", "", `"payload":{"id":`}, {"/effects", "", "state=failed", `"last_error":"451 later"`},
		{"/effects", "", "prefix=receipt-email:stripe:live:in_2", `"items":[{"key":"receipt-email:stripe:live:in_2"`},
		{"/payments/unassigned", "", "mode=test", `"items":[]`}, {"/accounts", "", "mode=live", `"id":"acme"`}, {"/rejections", "", "", `"items":[]`},
		{"/scheduled", "", "account=acme", `"due_at":"2026-12-24`}, {"/scheduled", "", "mode=test", `"items":[]`},
		{"/emails", "", "outcome=failed", `"items":[{"key":"receipt-email:stripe:live:in_1"`}, {"/emails", "", "mode=test", `"items":[]`},
		{"/entries", "", "account=acme", `"cash":49900`}, {"/entries", "", "mode=test", `"items":[]`}, {"/entries/sums", "", "since=1d", `"received":49900`},
		{"/entries/skipped", "", "account=acme", `"actor":"ada","reason":"booked by hand"`}, {"/entries/skipped", "", "mode=test", `"items":[]`},
		{"/entries/skipped/sums", "", "", `{"currency":"usd","entries":1,"amount":4800,"cash":4800,"perhaps_booked":0}`},
		{"/rules", "", "", `"items":[]`}, {"/sources", "", "unused_for=1h", `"label":"first"`}, {"/events", "", "since=2020-01-01", `"items":[`},
		{"/approvals", "", "", `"items":[]`}, {"/tasks", "", "account=acme", `"object":"dp/1"`}, {"/tasks/{id}", "dp/1", "", `"title":"see to it"`}, {"/jobs", "", "", `"id":"job-1"`},
		{"/jobs/{id}", "job-1", "result=open", `"name":"evt_1"`}, {"/sinks", "", "", `"items":[]`}, {"/sources", "", "", `"label":"first"`},
		{"/people", "", "", `"name":"eve","roles":["viewer"],"state":"active"`},
		{"/outages", "", "sink=finance", `"events":1,"accounts":1,"money":{"usd":49900}`}, {"/outages", "", "mode=test", `"events":0`}, {"/events", "", "outage=1", `"event_id":"evt_1"`},
		{"/events", "", "outage=2", `"items":[]`},
		{"/audit", "", "actor=ada", `"reason":"the night is long"`}, {"/openapi.yaml", "", "", "openapi: 3.1.0"}, {"/openapi.json", "", "", `"openapi": "3.1.0"`},
	} {
		if got := s.get(c.path, c.id, c.query); got.StatusCode != http.StatusOK || !strings.Contains(string(got.body), c.says) {
			t.Errorf("%s of %q?%s answered %d, without %s: %s", c.path, c.id, c.query, got.StatusCode, c.says, got.body)
		}
	}
	if got := s.ask(http.MethodGet, "/tokens", "", "", "admin", ""); got.StatusCode != http.StatusOK || !strings.Contains(string(got.body), `"items":`) {
		t.Errorf("an admin's list of tokens answered %d: %s", got.StatusCode, got.body)
	}
	for path, item := range s.doc.Paths.Map() {
		if item.Get != nil && !s.seen[path+" 200"] {
			t.Errorf("no test reads %s", path)
		}
	}
	if got := s.get("/events/{id}/payload", "evt_1", ""); strings.Contains(string(got.body), "ada@") {
		t.Errorf("the payload is not masked: %s", got.body)
	}
}

// The pages of a list contain every item once.
func TestRead_Pages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	s.exec(`insert into operator_actions (request_id, actor, action, target, reason, prev_hash, hash)
		select 'r' || n, 'ada', 'x', 'y', 'z', n::text::bytea, n::text::bytea from generate_series(1, 5) n`)
	for path, all := range map[string]int{"/events": 3, "/accounts": 3, "/effects": 3, "/tasks": 5, "/jobs": 3, "/audit": 5, "/outages": 3} {
		for limit := 1; limit <= all; limit++ {
			seen, cursor := map[string]bool{}, ""
			for pages := 0; ; pages++ {
				query := fmt.Sprintf("limit=%d", limit)
				if cursor != "" {
					query += "&cursor=" + url.QueryEscape(cursor)
				}
				p := want[Page[json.RawMessage]](t, s.get(path, "", query), http.StatusOK)
				for _, item := range p.Items {
					seen[string(item)] = true
				}
				if cursor = p.Next; cursor == "" {
					if len(seen) != all || pages+1 != (all+limit-1)/limit {
						t.Errorf("%s by %d: %d items on %d pages, want %d", path, limit, len(seen), pages+1, all)
					}
					break
				}
			}
		}
	}
}

// Every rejection has the same form of response: for unauthorized requests, unknown items, and invalid requests.
func TestRead_Problems(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(world...)
	s.exec(`update receipts set status = 'processed' where event_id = 'evt_1'`)
	for _, c := range []struct {
		path, id, query string
		status          int
		code            string
	}{
		{"/accounts/{id}", "nobody", "", 404, "unknown"}, {"/accounts/{id}", "acme", "", 409, "ambiguous"}, {"/accounts/{id}/access", "nobody", "", 404, "unknown"},
		{"/accounts/{id}/access", "acme", "", 409, "ambiguous"}, {"/accounts/{id}", "acme", "mode=dead", 400, "invalid"}, {"/invoices/{id}", "in_9", "", 404, "unknown"},
		{"/events/{id}", "evt_9", "", 404, "unknown"}, {"/events/{id}/payload", "evt_2", "", 404, "unknown"}, {"/events", "", "status=odd", 400, "invalid"},
		{"/events", "", "stauts=dead", 400, "invalid"}, {"/events", "", "cursor=x", 400, "invalid"}, {"/events", "", "since=yesterday", 400, "invalid"},
		{"/events", "", "limit=201", 400, "invalid"}, {"/events", "", "limit=0", 400, "invalid"}, {"/events", "", "account=nobody", 404, "unknown"}, {"/tasks", "", "cursor=x", 400, "invalid"}, {"/accounts", "", "cursor=x", 400, "invalid"}, {"/sources", "", "unused_for=0s", 400, "invalid"}, {"/tasks/{id}", "x", "", 404, "unknown"},
		{"/jobs/{id}", "x", "", 404, "unknown"}, {"/audit", "", "cursor=x", 400, "invalid"}, {"/effects", "", "state=done", 400, "invalid"},
		{"/nowhere", "", "", 404, "no_route"}, {"/accounts/{id}/nowhere", "acme", "", 404, "no_route"}, {"", "", "", 404, "no_route"},
		{"/accounts/{id}", strings.Repeat("x", 501), "", 400, "invalid"},
	} {
		got := s.get(c.path, c.id, c.query)
		if p := want[Problem](t, got, c.status); p.Code != c.code || p.Title != http.StatusText(c.status) || p.Detail == "" ||
			got.Header.Get("Content-Type") != "application/problem+json" || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s of %q?%s: %+v with %v, want %s", c.path, c.id, c.query, p, got.Header, c.code)
		}
	}
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status) values
		('00000000-0000-0000-0000-000000000009', 'github', 'github', 'live', 'evt_1', 'id', 'push', '', now(), '\x09', 'processed')`)
	if p := want[Problem](t, s.get("/events/{id}", "evt_1", ""), 409); p.Code != "ambiguous" || len(p.Candidates) != 2 {
		t.Errorf("an ID of two events: %+v, want both receipts", p)
	}
}

// An ID may contain "%" and "/", and is decoded once.
func TestRead_EscapedID_ReadOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, id := range []string{"a%2Fb", "a%25b", "100%", "a/b", "a/b%41", "ä %zz"} {
		if p := want[Problem](t, s.get("/jobs/{id}", id, ""), http.StatusNotFound); !strings.Contains(p.Detail, strconv.Quote(id)) {
			t.Errorf("%q: %+v", id, p)
		}
	}
}

// A role without the required right is rejected before anything is read: the test checks each role at each path, with
// each method.
func TestRights_RoleByRouteByMethod(t *testing.T) {
	t.Parallel()
	s := setup(t)
	roles := append([]role.Role{""}, role.All()...)
	walked := 0
	for path, item := range s.doc.Paths.Map() {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			needed := readers // without the right to read, the response does not reveal the methods of a path
			op := item.GetOperation(method)
			if method == http.MethodHead { // the same as GET, without the body
				op = item.Get
			}
			if op != nil {
				needed = needs(s.doc, op)
			}
			for _, named := range roles {
				walked++
				person := &decide.Person{Roles: []role.Role{named}}
				got := s.ask(method, path, "none", "", string(named), "")
				switch status := got.StatusCode; {
				case needed == nil && status != http.StatusOK,
					needed != nil && named == "" && status != http.StatusUnauthorized,
					needed != nil && named != "" && !person.May(needed...) && status != http.StatusForbidden,
					needed != nil && person.May(needed...) && (status == http.StatusUnauthorized || status == http.StatusForbidden),
					op == nil && person.May(needed...) && (status != http.StatusMethodNotAllowed || got.Header.Get("Allow") == ""),
					op != nil && method == http.MethodPost && person.May(needed...) && status < 400:
					t.Errorf("%s %s as %q answered %d: %s", method, path, named, status, got.body)
				}
			}
		}
	}
	if walked < 2000 {
		t.Errorf("walked %d ways: the document is not read", walked)
	}
	var actions int
	if err := s.db.QueryRow(t.Context(), `select count(*) from operator_actions`).Scan(&actions); err != nil || actions > 0 {
		t.Errorf("%d decisions are in the trail (%v), want no decision", actions, err)
	}
}

// The response to an invalid token is the same as to a missing one.
func TestToken_AcceptedAndNot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made := want[decide.Answer](t, s.ask(http.MethodPost, "/tokens/{id}/new", "shop", "", "admin", `{"reason":"the shop asks","role":"viewer","expires":"90d","networks":"all"}`), http.StatusOK)
	text := made.Result.(map[string]any)["token"].(string)
	ask := func(text string) int {
		return s.ask(http.MethodGet, "/events", "", "", "", "", "Authorization", "Bearer "+text).StatusCode
	}
	if got := ask(text); got != http.StatusOK {
		t.Errorf("a token is answered %d", got)
	}
	if got := s.ask(http.MethodPost, "/events/{id}/retry", "evt_1", "", "", `{"reason":"x"}`, "Authorization", "Bearer "+text); got.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer's token decides: %d", got.StatusCode)
	}
	for _, other := range []string{"", "x", text + "0", strings.ToUpper(text)} {
		if got := s.ask(http.MethodGet, "/events", "", "", "", "", "Authorization", "Bearer "+other); got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q is answered %d", other, got.StatusCode)
		}
	}
}

// The response to an internal error contains no details; if the database is down, it reports that.
func TestFail_FaultsAreNotShown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`alter table jobs rename to lost`)
	if p := want[Problem](t, s.get("/jobs", "", ""), 500); p.Code != "fault" || strings.Contains(p.Detail, "jobs") {
		t.Errorf("a fault: %+v", p)
	}
	for err, want := range map[error]string{
		fmt.Errorf("%w: refused", decide.ErrAway): "away", fmt.Errorf("read: %w", context.DeadlineExceeded): "away",
		&decide.Fault{Kind: decide.Later, Message: "no answer"}: "later", fmt.Errorf("x: %w", &decide.RefusedError{}): "refused",
	} {
		rec := httptest.NewRecorder()
		c := &call{server: &server{Options: Options{Log: slog.New(slog.DiscardHandler)}}, Context: echo.New().NewContext(httptest.NewRequest("GET", "/", nil), rec)}
		if err := c.fail(err); err != nil {
			t.Fatal(err)
		}
		var p Problem
		if _ = json.Unmarshal(rec.Body.Bytes(), &p); p.Code != want || (rec.Code == 503) != (rec.Header().Get("Retry-After") != "") {
			t.Errorf("%v: %+v with %v, want %s", err, p, rec.Header(), want)
		}
	}
	if names := slices.Sorted(maps.Keys(s.seen)); len(names) == 0 {
		t.Error("no answer was checked against the document")
	}
}
