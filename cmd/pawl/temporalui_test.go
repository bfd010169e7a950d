package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/schema/schematest"
)

// `pawl temporal-ui` forwards requests of the UI's own pages, for the host names of this machine and the names in
// --host. DNS rebinding and pages of other origins can read nothing. The command ends when its context ends.
func TestTemporalUI_ForeignHostOrOrigin_ReadsNothing(t *testing.T) {
	t.Parallel()
	ui := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "history ", r.URL.Path) }))
	t.Cleanup(ui.Close)
	address := schematest.FreeAddr(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	a := command.NewApp(command.Stdio{Out: io.Discard, Err: io.Discard}, func(string) (string, bool) { return "", false })
	a.Log = slog.New(slog.DiscardHandler)
	cmd := temporalUICommand(a)
	cmd.SetArgs([]string{"--listen", address, "--ui", ui.URL, "--host", "temporal.example.com"})
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	read := func(host, origin string) (status int, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/api/v1/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	until(t, "the command listens", func() bool { status, _ := read("localhost", ""); return status != 0 })
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:8233", "", http.StatusOK},
		{"127.0.0.1:8233", "http://127.0.0.1:8233", http.StatusOK},
		{"temporal.example.com", "https://temporal.example.com", http.StatusOK},
		{"evil.example:8233", "", http.StatusMisdirectedRequest},
		{"evil.example:8233", "http://evil.example:8233", http.StatusMisdirectedRequest},
		{"127.0.0.1:8233", "https://evil.example", http.StatusForbidden},
		{"127.0.0.1:8233", "http://127.0.0.1:9", http.StatusForbidden},
		{"127.0.0.1:8233", "null", http.StatusForbidden},
	} {
		status, body := read(c.host, c.origin)
		if status != c.status || (body == "history /api/v1/runs") != (c.status == http.StatusOK) {
			t.Errorf("host %s, origin %q: got %d %q, want %d", c.host, c.origin, status, body, c.status)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the command ended with %v", err)
	}
	if got := pawl(t, nil, "temporal-ui", "--ui", "temporal-ui"); got.Code != 2 {
		t.Errorf("--ui without a URL: exit %d, %s", got.Code, got.Err)
	}
}
