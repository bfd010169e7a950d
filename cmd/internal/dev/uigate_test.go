package dev_test

import (
	"net/http"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/dev"
)

// The UI serves pages of its own address. The gate rejects a page with another host name that resolves to this
// machine, and a form of another site.
func TestTemporalUI_ForeignHostOrOrigin_Refused(t *testing.T) {
	t.Parallel()
	server := start(t, dev.TemporalOptions{Dir: t.TempDir()})
	const runs, write = "/api/v1/namespaces/default/workflows", "/api/v1/namespaces/default/workflows/kept/terminate"
	for name, c := range map[string]struct {
		method, path, host, origin string
		refused                    bool
	}{
		"its own page":          {method: http.MethodGet, path: runs},
		"localhost":             {method: http.MethodGet, path: runs, host: "localhost:1"},
		"its own write":         {method: http.MethodPost, path: write, origin: server.UIURL()},
		"a rebinding page":      {method: http.MethodGet, path: runs, host: "evil.example", refused: true},
		"another site's read":   {method: http.MethodGet, path: runs, origin: "https://evil.example", refused: true},
		"another port's read":   {method: http.MethodGet, path: runs, origin: "http://localhost:1", refused: true},
		"a rebinding write":     {method: http.MethodPost, path: write, host: "evil.example", origin: "http://evil.example", refused: true},
		"another site's write":  {method: http.MethodPost, path: write, origin: "https://evil.example", refused: true},
		"a write of no origin":  {method: http.MethodPost, path: write, origin: "null", refused: true},
		"another site's delete": {method: http.MethodDelete, path: write, origin: "http://localhost:1", refused: true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.UIURL()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		// Temporal itself answers a write without its CSRF token with 400, or with 403 and another text.
		refused := resp.StatusCode == http.StatusMisdirectedRequest || resp.StatusCode == http.StatusForbidden && resp.Header.Get("X-Frame-Options") == ""
		if refused != c.refused {
			t.Errorf("%s: %s, want refused by the gate %t", name, resp.Status, c.refused)
		}
	}
}
