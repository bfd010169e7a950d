package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
)

// line is the parsed form of a journal line.
type line struct {
	At      time.Time `json:"received_at"`
	Key     string
	First   bool
	Account string
	Body    json.RawMessage
}

func start(t *testing.T, dir string) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.Start(t.Context(), sandbox.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return s
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

// journal reads DIR/service.jsonl and checks that each line has exactly the documented fields.
func journal(t *testing.T, dir, service string) []line {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, service+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	for text := range bytes.Lines(content) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatalf("%s: %q: %v", service, text, err)
		}
		for _, name := range []string{"received_at", "key", "first", "account", "body"} {
			if _, ok := fields[name]; !ok || len(fields) != 5 {
				t.Errorf("%s: %q; want exactly at, key, first, account, body", service, text)
			}
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// client does not reuse connections, because net/http repeats a request with an Idempotency-Key if a reused
// connection is closed.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// call sends a request with pairs of headers and returns the response, or the error of the transport.
func call(t *testing.T, method, url, body string, headers ...string) (status int, header http.Header, answer string, err error) {
	t.Helper()
	return callContext(t.Context(), method, url, body, headers...)
}

// callContext may be called from other goroutines than the test's.
func callContext(ctx context.Context, method, url, body string, headers ...string) (status int, header http.Header, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(content), err
}

func want(t *testing.T, status int, err error, wanted int) {
	t.Helper()
	if err != nil || status != wanted {
		t.Errorf("answer = %d, %v; want %d", status, err, wanted)
	}
}

func put(t *testing.T, s *sandbox.Sandbox, account, key, body string) (int, http.Header, string, error) {
	t.Helper()
	return call(t, http.MethodPut, s.URL()+"/workspaces/"+account, body, "Idempotency-Key", key)
}

func fault(t *testing.T, s *sandbox.Sandbox, body string) {
	t.Helper()
	status, _, answer, err := call(t, http.MethodPost, s.URL()+"/_faults", body)
	if err != nil || status != http.StatusCreated {
		t.Fatalf("POST /_faults %s = %d %s, %v", body, status, answer, err)
	}
}

func TestWorkspaces_KeyIsRemembered_AlsoAcrossARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	body := `{ "plan":"pro",   "name":"<b>&\u00e9" }`
	status, _, first, err := put(t, s, "acct_1", "k1", body)
	want(t, status, err, http.StatusOK)

	again := func() {
		t.Helper()
		status, header, answer, err := put(t, s, "acct_1", "k1", body)
		want(t, status, err, http.StatusOK)
		if answer != first || header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("repeated: %s, replayed %q; want the first answer %s", answer, header.Get("Idempotent-Replayed"), first)
		}
		for _, other := range [][2]string{{"acct_1", `{ "plan":"max",   "name":"<b>&\u00e9" }`}, {"acct_2", body}} {
			status, _, _, err := put(t, s, other[0], "k1", other[1])
			want(t, status, err, http.StatusConflict)
		}
	}
	again()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	again()

	var firsts []bool
	for _, l := range journal(t, dir, "workspaces") {
		firsts = append(firsts, l.First)
		if l.Key != "k1" || l.Account != "acct_1" || string(l.Body) != body || l.At.IsZero() {
			t.Errorf("line = %+v, body %s; want key, account and the request's own bytes", l, l.Body)
		}
	}
	if len(firsts) != 3 || !firsts[0] || firsts[1] || firsts[2] {
		t.Errorf("first = %v; want one true and two false", firsts)
	}
}

func TestWorkspaces_BodyWithLineBreaks_IsOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	body := "{\n  \"plan\": \"pro\"\n}\n"
	for range 2 {
		status, _, _, err := put(t, s, "acct_1", "k1", body)
		want(t, status, err, http.StatusOK)
	}
	lines := journal(t, dir, "workspaces")
	if len(lines) != 2 || string(lines[0].Body) != `{"plan":"pro"}` || lines[1].First {
		t.Errorf("journal = %+v; want two lines, the second not first", lines)
	}
}

func TestWorkspaces_State(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	state := func() string {
		t.Helper()
		status, _, answer, err := call(t, http.MethodGet, s.URL()+"/workspaces/acct_1", "")
		want(t, status, err, http.StatusOK)
		var held line
		if err := json.Unmarshal([]byte(answer), &held); err != nil {
			t.Fatal(err)
		}
		return string(held.Body)
	}
	status, _, _, err := call(t, http.MethodGet, s.URL()+"/workspaces/acct_1", "")
	want(t, status, err, http.StatusNotFound)
	for _, step := range []struct{ key, body, state string }{
		{"k1", `{"plan":"pro"}`, `{"plan":"pro"}`},
		{"k2", `{"plan":"max"}`, `{"plan":"max"}`},
		{"k1", `{"plan":"pro"}`, `{"plan":"max"}`}, // the response is the stored one, so the request changes nothing
	} {
		status, _, _, err := put(t, s, "acct_1", step.key, step.body)
		want(t, status, err, http.StatusOK)
		if got := state(); got != step.state {
			t.Errorf("state after %s = %s; want %s", step.key, got, step.state)
		}
	}
}

// putTarget sends a version of an account's target as pawl does, and returns the status.
func putTarget(t *testing.T, s *sandbox.Sandbox, mode string, version int) int {
	t.Helper()
	body := fmt.Sprintf(`{"account":"acme","mode":%q,"plan":"v%d","version":%d}`, mode, version, version)
	status, _, _, err := call(t, http.MethodPut, s.URL()+"/workspaces/acme", body, "Idempotency-Key", fmt.Sprintf("%s:v%d", mode, version),
		"Pawl-Mode", mode, "Pawl-Target-Version", strconv.Itoa(version))
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// plan returns the plan of an account's workspace in a mode.
func plan(t *testing.T, s *sandbox.Sandbox, mode string) string {
	t.Helper()
	status, _, answer, err := call(t, http.MethodGet, s.URL()+"/workspaces/acme?mode="+mode, "")
	want(t, status, err, http.StatusOK)
	var held struct{ Body struct{ Plan string } }
	if err := json.Unmarshal([]byte(answer), &held); err != nil {
		t.Fatal(err)
	}
	return held.Body.Plan
}

// An older target that arrives late is accepted but changes nothing; each mode has its own workspace.
func TestWorkspaces_OlderVersion_KeptAndNotApplied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for _, step := range []struct {
		mode          string
		version       int
		live, forTest string
	}{{"live", 7, "v7", ""}, {"live", 8, "v8", ""}, {"test", 1, "v8", "v1"}, {"live", 6, "v8", "v1"}, {"test", 2, "v8", "v2"}} {
		if status := putTarget(t, s, step.mode, step.version); status != http.StatusOK {
			t.Errorf("%s v%d is answered %d", step.mode, step.version, status)
		}
		if got := plan(t, s, "live"); got != step.live {
			t.Errorf("after %s v%d the live workspace has %s, want %s", step.mode, step.version, got, step.live)
		}
		if step.forTest != "" && plan(t, s, "test") != step.forTest {
			t.Errorf("after %s v%d the test workspace has %s, want %s", step.mode, step.version, plan(t, s, "test"), step.forTest)
		}
	}
	if got := journal(t, dir, "workspaces"); len(got) != 5 {
		t.Errorf("%d lines, want one for each request", len(got))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := start(t, dir); plan(t, again, "live") != "v8" || plan(t, again, "test") != "v2" {
		t.Errorf("after a restart: live %s, test %s", plan(t, again, "live"), plan(t, again, "test"))
	}
}

func TestWorkspaces_HeadersDifferFromTheBody_Refused(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for _, header := range [][2]string{{"Pawl-Mode", "test"}, {"Pawl-Target-Version", "3"}} {
		status, _, answer, err := call(t, http.MethodPut, s.URL()+"/workspaces/acme", `{"mode":"live","version":2}`, "Idempotency-Key", "k", header[0], header[1])
		want(t, status, err, http.StatusBadRequest)
		if !strings.Contains(answer, header[0]) {
			t.Errorf("answer %s does not name %s", answer, header[0])
		}
	}
}

// An API without versions applies the last request. pawl's alignment of workspaces exists for such APIs.
func TestFaults_IgnoreVersion_OlderTargetApplied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	putTarget(t, s, "live", 8)
	fault(t, s, `{"service":"workspaces","latency_ms":1,"ignore_version":true}`)
	fault(t, s, `{"service":"workspaces","ignore_version":true}`)
	for _, version := range []int{7, 6} {
		putTarget(t, s, "live", version)
		if got, want := plan(t, s, "live"), fmt.Sprintf("v%d", version); got != want {
			t.Errorf("the workspace has %s, want %s", got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	if got := plan(t, s, "live"); got != "v6" {
		t.Errorf("after a restart the workspace has %s, want the same as before", got)
	}
	if putTarget(t, s, "live", 9); plan(t, s, "live") != "v9" {
		t.Errorf("the workspace has %s, want the newest", plan(t, s, "live"))
	}
}

func TestFaults_OnlyOneAccount(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	fault(t, s, `{"service":"workspaces","status":422,"account":"umbrella"}`)
	fault(t, s, `{"service":"finance","status":422,"account":"umbrella"}`)
	for account, refused := range map[string]bool{"acme": false, "umbrella": true} {
		body := fmt.Sprintf(`{"account":%q}`, account)
		workspace, _, _, err := put(t, s, account, "k-"+account, body)
		if err != nil || (workspace == http.StatusUnprocessableEntity) != refused {
			t.Errorf("the workspace of %s is answered %d, %v", account, workspace, err)
		}
		entry, _, _, err := call(t, http.MethodPost, s.URL()+"/entries", body, "Idempotency-Key", "k-"+account)
		if err != nil || (entry == http.StatusUnprocessableEntity) != refused {
			t.Errorf("the entry of %s is answered %d, %v", account, entry, err)
		}
	}
}

func TestFaults_OnlyOnePlan(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	fault(t, s, `{"service":"workspaces","status":422,"plan":"enterprise"}`)
	fault(t, s, `{"service":"workspaces","status":422,"plan":"pro:50"}`)
	for target, refused := range map[string]bool{"pro:5": false, "pro:500": false, "pro:50": true, "enterprise:1": true} {
		plan, seats, _ := strings.Cut(target, ":")
		answer, _, _, err := put(t, s, target, "k-"+target, fmt.Sprintf(`{"plan":%q,"quantity":%s}`, plan, seats))
		if err != nil || (answer == http.StatusUnprocessableEntity) != refused {
			t.Errorf("%s is answered %d, %v", target, answer, err)
		}
	}
}

func TestOpenAPI_Served(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	status, _, answer, err := call(t, http.MethodGet, s.URL()+"/openapi.yaml", "")
	want(t, status, err, http.StatusOK)
	if file, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "sinks.openapi.yaml")); err != nil || answer != string(file) {
		t.Errorf("served is not docs/sinks.openapi.yaml (%v)", err)
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for _, account := range []string{"acct_1", "acct_2"} {
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/entries", `{"account":"`+account+`","amount":100}`, "Idempotency-Key", "entry:"+account)
		want(t, status, err, http.StatusCreated)
	}
	status, _, answer, err := call(t, http.MethodGet, s.URL()+"/entries?account=acct_2", "")
	want(t, status, err, http.StatusOK)
	var entries []line
	if err := json.Unmarshal([]byte(answer), &entries); err != nil || len(entries) != 1 || entries[0].Account != "acct_2" {
		t.Errorf("entries = %s, %v; want the one of acct_2", answer, err)
	}
}

func TestAPIs_BadRequests_AreNotAccepted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for name, tc := range map[string]struct {
		method, path, body, key string
		status                  int
	}{
		"no key for a workspace": {http.MethodPut, "/workspaces/a", `{}`, "", 400},
		"no key for an entry":    {http.MethodPost, "/entries", `{}`, "", 400},
		"long key":               {http.MethodPost, "/entries", `{}`, strings.Repeat("k", 256), 400},
		"not JSON":               {http.MethodPost, "/entries", `{`, "k", 400},
		"two values":             {http.MethodPost, "/entries", `{}{}`, "k", 400},
		"no object":              {http.MethodPut, "/workspaces/a", `[]`, "k", 400},
		"event without ID":       {http.MethodPost, "/events", `{}`, "", 400},
		"relayed without ID":     {http.MethodPost, "/relayed", `{}`, "", 400},
		"too large":              {http.MethodPost, "/entries", `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, "k", 413},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			if tc.key != "" {
				headers = []string{"Idempotency-Key", tc.key}
			}
			status, _, _, err := call(t, tc.method, s.URL()+tc.path, tc.body, headers...)
			want(t, status, err, tc.status)
		})
	}
	for _, service := range []string{"workspaces", "finance", "events", "relayed"} {
		if lines := journal(t, dir, service); len(lines) != 0 {
			t.Errorf("%s.jsonl = %+v; want nothing", service, lines)
		}
	}
}

func TestEvents_BothModes_IDIsRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	post := func(body string, headers ...string) {
		t.Helper()
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/events", body, headers...)
		want(t, status, err, http.StatusAccepted)
	}
	post(`{"specversion":"1.0","id":"e1","data":{"account":"acct_1"}}`, "Content-Type", "application/cloudevents+json")
	post(`{"specversion":"1.0","id":"e1","data":{"account":"acct_1"},"attempt":2}`, "Content-Type", "application/cloudevents+json")
	post(`{"account":"acct_2"}`, "Ce-Id", "e2")
	lines := journal(t, dir, "events")
	if len(lines) != 3 {
		t.Fatalf("journal = %+v; want 3 lines", lines)
	}
	for i, w := range []line{{Key: "e1", First: true, Account: "acct_1"}, {Key: "e1", Account: "acct_1"}, {Key: "e2", First: true, Account: "acct_2"}} {
		if l := lines[i]; l.Key != w.Key || l.First != w.First || l.Account != w.Account {
			t.Errorf("line %d = %+v; want %+v", i, l, w)
		}
	}
}

// Providers send any JSON, and also forms; the journal contains all of it.
func TestRelayed_AnyBody_IDIsRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for _, d := range []struct{ id, body string }{{"pawl_1", `{"id":"evt_1"}`}, {"pawl_1", `{"id":"evt_1"}`}, {"pawl_2", "a=1&b=%22"}, {"pawl_3", "[1]"}, {"pawl_4", ""}} {
		status, _, _, err := call(t, http.MethodPost, s.URL()+"/relayed", d.body, "Webhook-Id", d.id, "Pawl-Account", "acct_1")
		want(t, status, err, http.StatusAccepted)
	}
	var got []string
	for _, l := range journal(t, dir, "relayed") {
		got = append(got, fmt.Sprintf("%s %t %s %s", l.Key, l.First, l.Account, l.Body))
	}
	want := []string{`pawl_1 true acct_1 {"id":"evt_1"}`, `pawl_1 false acct_1 {"id":"evt_1"}`, `pawl_2 true acct_1 "a=1\u0026b=%22"`, "pawl_3 true acct_1 [1]", `pawl_4 true acct_1 ""`}
	if !slices.Equal(got, want) {
		t.Errorf("journal:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// When the response to a request arrives, the journal already contains its line. If many requests have the same key,
// exactly one is marked as first, and it is the first line with this key.
func TestJournal_ManyAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	const keys, each = 20, 10
	var wg sync.WaitGroup
	for i := range keys * each {
		wg.Go(func() {
			key := "k" + strconv.Itoa(i%keys)
			status, _, _, err := put(t, s, "acct_1", key, `{"key":"`+key+`"}`)
			want(t, status, err, http.StatusOK)
			content, err := os.ReadFile(filepath.Join(dir, "workspaces.jsonl"))
			if err != nil || !strings.Contains(string(content), `"key":"`+key+`"`) {
				t.Errorf("%s was answered before its line was written", key)
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, l := range journal(t, dir, "workspaces") {
		if l.First != (count[l.Key] == 0) {
			t.Errorf("line %d of %s has first = %t", count[l.Key], l.Key, l.First)
		}
		count[l.Key]++
	}
	for key, n := range count {
		if n != each {
			t.Errorf("%s has %d lines; want %d", key, n, each)
		}
	}
}

func TestStart_LastLineCutOff_IsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := `{"received_at":"2026-01-02T03:04:05Z","key":"k1","first":true,"account":"acct_1","body":{"plan":"pro"}}` + "\n"
	path := filepath.Join(dir, "workspaces.jsonl")
	if err := os.WriteFile(path, []byte(whole+`{"received_at":"2026-01-02T03:04:06Z","key":"k2","fir`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir)
	status, header, _, err := put(t, s, "acct_1", "k2", `{"plan":"max"}`)
	want(t, status, err, http.StatusOK)
	if header.Get("Idempotent-Replayed") != "" {
		t.Error("a request that was never answered is remembered")
	}
	if lines := journal(t, dir, "workspaces"); len(lines) != 2 || lines[1].Key != "k2" || !lines[1].First {
		t.Errorf("journal = %+v; want k1 and k2, both first", lines)
	}
}

func TestStart_DirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir)
	if _, err := sandbox.Start(t.Context(), sandbox.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start() = %v; want that %s is in use", err, dir)
	}
}

func TestStart_DamagedJournal_NamesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "finance.jsonl"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.Start(t.Context(), sandbox.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "finance.jsonl") {
		t.Errorf("Start() = %v; want the file's name", err)
	}
}

func TestClose_ContextEnds_AddressIsFree(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := sandbox.Start(ctx, sandbox.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.Close(); err != nil { // waits for the shutdown that the end of ctx started
		t.Errorf("Close() = %v", err)
	}
	if _, _, _, err := call(t, http.MethodGet, s.URL()+"/", ""); err == nil {
		t.Error("the sandbox still answers")
	}
}

func TestPage_IsEscapedAndHasNoScript(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	status, _, _, err := put(t, s, "acct_1", "<script>alert(1)</script>", `{"name":"<img src=x>"}`)
	want(t, status, err, http.StatusOK)
	status, header, page, err := call(t, http.MethodGet, s.URL()+"/", "")
	want(t, status, err, http.StatusOK)
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;") {
		t.Errorf("page = %s; want the key and the body escaped", page)
	}
	if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy = %q", csp)
	}
}

func TestFaults_HTTP(t *testing.T) {
	t.Parallel()
	type outcome struct {
		status   int // 0 means that the server closed the connection
		accepted int // the number of journal lines afterwards
	}
	for name, tc := range map[string]struct {
		fault   string
		answers []outcome
	}{
		"status":               {`{"service":"workspaces","next":2,"status":503,"retry_after":7}`, []outcome{{503, 0}, {503, 0}, {200, 1}}},
		"refused for good":     {`{"service":"workspaces","status":403}`, []outcome{{403, 0}, {200, 1}}},
		"accepted, then error": {`{"service":"workspaces","mode":"status_after_accept","status":500}`, []outcome{{500, 1}, {200, 2}}},
		"dropped before":       {`{"service":"workspaces","mode":"drop_before_accept"}`, []outcome{{0, 0}, {200, 1}}},
		"dropped after":        {`{"service":"workspaces","mode":"drop_after_accept","next":2}`, []outcome{{0, 1}, {0, 2}, {200, 3}}},
		"other service":        {`{"service":"finance","status":503}`, []outcome{{200, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := start(t, dir)
			fault(t, s, tc.fault)
			for i, w := range tc.answers {
				status, header, _, err := put(t, s, "acct_1", "k1", `{"plan":"pro"}`)
				if w.status == 0 && !errors.Is(err, io.EOF) {
					t.Errorf("request %d = %d, %v; want a closed connection", i, status, err)
				}
				if w.status != 0 {
					want(t, status, err, w.status)
				}
				if w.status == 503 && header.Get("Retry-After") != "7" {
					t.Errorf("Retry-After = %q; want 7", header.Get("Retry-After"))
				}
				if lines := journal(t, dir, "workspaces"); len(lines) != w.accepted {
					t.Errorf("after request %d the journal has %d lines; want %d", i, len(lines), w.accepted)
				}
			}
		})
	}
}

func TestFaults_HTTP_Latency(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	fault(t, s, `{"service":"finance","latency_ms":150}`)
	began := time.Now()
	status, _, _, err := call(t, http.MethodPost, s.URL()+"/entries", `{}`, "Idempotency-Key", "k1")
	want(t, status, err, http.StatusCreated)
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("answered after %s; want 150 ms or more", took)
	}
}

func TestFaults_HTTP_Hang_AcceptedWithoutAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	fault(t, s, `{"service":"finance","mode":"hang_after_accept"}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, _, _, err := callContext(ctx, http.MethodPost, s.URL()+"/entries", `{}`, "Idempotency-Key", "k1")
		answered <- err
	}()
	eventually(t, "the request is in the journal", func() bool { return len(journal(t, dir, "finance")) == 1 })
	select {
	case err := <-answered:
		t.Errorf("answer = %v; want none", err)
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("answer = %v; want none until the client gives up", err)
	}
}

func TestFaults_ListAndClear(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	list := func(wanted string) {
		t.Helper()
		status, _, answer, err := call(t, http.MethodGet, s.URL()+"/_faults", "")
		want(t, status, err, http.StatusOK)
		if strings.TrimSpace(answer) != wanted {
			t.Errorf("faults = %s; want %s", answer, wanted)
		}
	}
	list(`[]`)
	fault(t, s, `{"service":"finance","next":3,"status":503}`)
	fault(t, s, `{"service":"email","mode":"drop_before_accept"}`)
	status, _, _, err := call(t, http.MethodPost, s.URL()+"/entries", `{}`, "Idempotency-Key", "k1")
	want(t, status, err, http.StatusServiceUnavailable)
	list(`[{"service":"finance","next":2,"mode":"status","status":503},{"service":"email","next":1,"mode":"drop_before_accept","smtp":"rcpt"}]`)
	status, _, _, err = call(t, http.MethodDelete, s.URL()+"/_faults?service=email", "")
	want(t, status, err, http.StatusNoContent)
	list(`[{"service":"finance","next":2,"mode":"status","status":503}]`)
	status, _, _, err = call(t, http.MethodDelete, s.URL()+"/_faults", "")
	want(t, status, err, http.StatusNoContent)
	list(`[]`)
}

func TestFaults_Invalid_SaysWhat(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for body, wanted := range map[string][]string{
		`nonsense`: {"want a JSON object with service"},
		`{}`:       {`service is \"\"`, "nothing would happen"},
		`{"service":"fax","status":503,"next":0}`:                       {`service is \"fax\": want one of email, workspaces, finance, sinks, events`, "next is 0"},
		`{"service":"finance","staus":503}`:                             {"unknown field", "staus", "status"},
		`{"service":"finance","status":200}`:                            {"status is 200: want 300 to 599"},
		`{"service":"email","status":300}`:                              {"status is 300: want 400 to 599"},
		`{"service":"finance","mode":"status"}`:                         {"status is 0"},
		`{"service":"finance","mode":"explode"}`:                        {`mode is \"explode\"`},
		`{"service":"finance","mode":"drop_after_accept","status":503}`: {"status does not go with mode drop_after_accept"},
		`{"service":"finance","latency_ms":-1,"status":503}`:            {"latency_ms is -1"},
		`{"service":"finance","status":503,"smtp":"data"}`:              {"smtp is for service email only"},
		`{"service":"email","status":451,"retry_after":1}`:              {"retry_after goes with an HTTP status only"},
		`{"service":"email","status":451,"smtp":"helo"}`:                {`smtp is \"helo\": want mail, rcpt or data`},
		`{"service":"email","mode":"drop_after_accept","smtp":"rcpt"}`:  {"a message is accepted at data only"},
		`{"service":"finance","ignore_version":true}`:                   {"for service workspaces only"},
		`{"service":"events","status":503,"account":"acme"}`:            {"for the services workspaces and finance only"},
	} {
		status, _, answer, err := call(t, http.MethodPost, s.URL()+"/_faults", body)
		want(t, status, err, http.StatusBadRequest)
		for _, w := range wanted {
			if !strings.Contains(answer, w) {
				t.Errorf("POST /_faults %s = %s; want %q in it", body, answer, w)
			}
		}
	}
}

// The callback is called for every accepted request, including repetitions, and for no rejected request.
func TestAccepted_TellsOfEachRequest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	s, err := sandbox.Start(t.Context(), sandbox.Config{Dir: t.TempDir(), Accepted: func(service, account string, first bool) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, service+" "+account+" "+strconv.FormatBool(first))
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, key := range []string{"k1", "k1", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/entries", strings.NewReader(`{"account":"acme"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if got, want := strings.Join(told, ", "), "finance acme true, finance acme false"; got != want {
		t.Errorf("callback for %s; want %s", got, want)
	}
}

func TestStart_DirOpenToOthers_Closed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // the file mode that earlier versions set
		t.Fatal(err)
	}
	s, err := sandbox.Start(t.Context(), sandbox.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode %o, want 700: journals hold mails", got)
	}
}
