package activitiestest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities/activitiestest"
)

const (
	workspace = `{"account":"acme","mode":"live","plan":"pro","quantity":3,"features":["api"],"state":"active","version":7}`
	entry     = `{"kind":"payment","mode":"live","account":"acme","object":"in_1","amount":4900,"tax":0,"currency":"usd","cash":4900,"occurred_at":"2026-03-01T00:01:00Z"}`
)

// The check must find invalid requests; otherwise it would prove nothing in other tests.
func TestConforms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method, path, body, without string
		wrong                       string // "" if the request is valid
	}{
		"workspace":          {method: "PUT", path: "/v1/workspaces/acme", body: workspace},
		"no version header":  {method: "PUT", path: "/workspaces/acme", body: workspace, without: "Pawl-Target-Version", wrong: "Pawl-Target-Version"},
		"no key":             {method: "PUT", path: "/workspaces/acme", body: workspace, without: "Idempotency-Key", wrong: "Idempotency-Key"},
		"no mode":            {method: "PUT", path: "/workspaces/acme", body: workspace, without: "Pawl-Mode", wrong: "Pawl-Mode"},
		"unknown state":      {method: "PUT", path: "/workspaces/acme", body: strings.Replace(workspace, "active", "busy", 1), wrong: "state"},
		"null for a list":    {method: "PUT", path: "/workspaces/acme", body: strings.Replace(workspace, `["api"]`, "null", 1), wrong: "features"},
		"path in an account": {method: "PUT", path: "/workspaces/acme/entries", body: workspace, wrong: "not escaped"},
		"other method":       {method: "PATCH", path: "/workspaces/acme", body: workspace, wrong: "not in docs"},
		"entry":              {method: "POST", path: "/entries", body: entry},
		"field of our own":   {method: "POST", path: "/entries", body: strings.Replace(entry, `"tax"`, `"customer_email":"a@b.test","tax"`, 1), wrong: "customer_email"},
		"field missing":      {method: "POST", path: "/entries", body: strings.Replace(entry, `"currency":"usd",`, "", 1), wrong: "currency"},
		"a number as text":   {method: "POST", path: "/entries", body: strings.Replace(entry, "4900", `"49.00"`, 1), wrong: "amount"},
		"a time without":     {method: "POST", path: "/entries", body: strings.Replace(entry, "T00:01:00Z", "", 1), wrong: "occurred_at"},
		"something else":     {method: "POST", path: "/relayed", body: "payload=x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://sink.test"+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			for header, value := range map[string]string{
				"Content-Type": "application/json", "Idempotency-Key": "finance-export:stripe:live:in_1", "Pawl-Mode": "live", "Pawl-Target-Version": "7",
			} {
				if header != tt.without {
					r.Header.Set(header, value)
				}
			}
			err = activitiestest.Conforms(r)
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("Conforms() = %v, want %q", err, tt.wrong)
			}
		})
	}
}
