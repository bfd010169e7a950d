package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities/activitiestest"
)

// The example does what pawl asks of a sink, with requests that pawl could make.
func TestSinks_KeyTwice_DoneOnce(t *testing.T) {
	t.Parallel()
	s := &sinks{keys: map[string][]byte{}, versions: map[string]int64{}}
	target := func(version string) string {
		return `{"mode":"test","account":"acme","state":"active","plan":"pro","quantity":1,"features":["api"],"version":` + version + `}`
	}
	for _, step := range []struct {
		method, path, key, body string
		status                  int
		version                 int64
	}{
		{"PUT", "/workspaces/acme", "a:v2", target("2"), 200, 2},
		{"PUT", "/workspaces/acme", "a:v2", target("2"), 200, 2},
		{"PUT", "/workspaces/acme", "a:v1", target("1"), 200, 2},
		{"PUT", "/workspaces/acme", "a:v3", target("3"), 200, 3},
		{"PUT", "/workspaces/acme", "a:v3", target("4"), 409, 3},
		{"PUT", "/workspaces/acme", "", target("5"), 400, 3},
	} {
		r := httptest.NewRequest(step.method, step.path, strings.NewReader(step.body))
		r.Header.Set("Idempotency-Key", step.key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Pawl-Mode", "test")
		r.Header.Set("Pawl-Target-Version", strings.TrimPrefix(step.key, "a:v"))
		if err := activitiestest.Conforms(r); step.status == http.StatusOK && err != nil {
			t.Errorf("pawl sends no such request: %v", err)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != step.status || s.versions["test acme"] != step.version {
			t.Errorf("%s: %d, version %d; want %d, version %d", step.key, w.Code, s.versions["test acme"], step.status, step.version)
		}
	}
	entry := `{"mode":"test","account":"acme","kind":"payment","object":"in_1","amount":4900,"tax":0,"currency":"usd","cash":4900,"occurred_at":"2026-03-01T00:00:00Z"}`
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/entries", strings.NewReader(entry))
		r.Header.Set("Idempotency-Key", "finance-export:stripe:test:in_1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Pawl-Mode", "test")
		if err := activitiestest.Conforms(r); err != nil {
			t.Errorf("pawl sends no such entry: %v", err)
		}
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if s.entries != 1 {
		t.Errorf("%d entries, want one", s.entries)
	}
}
