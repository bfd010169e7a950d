package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A developer tries a flow of the own file in the sandbox and changes it while pawl runs. Sources, sinks and recipients
// have the names of the file, and none of their secrets exists. A change with an error is reported and not used.
func TestDev_OwnFlow_RunsInTheSandboxAndChanges(t *testing.T) {
	t.Parallel()
	d := newDev(t, filepath.Join(t.TempDir(), "state"), nil)
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	write := func(path string) {
		t.Helper()
		content := fmt.Sprintf(`
database: env:PRODUCTION
sources:
  shop: {provider: shopify, mode: live, secrets: [{value: env:SHOPIFY_SECRET}]}
sinks:
  stock: {live: {url: "https://stock.example.com", token: env:STOCK_TOKEN}, refusals: [402]}
notify:
  sinks: {team: {kind: slack, url: env:SLACK_URL}}
console: {users: people}
flows:
  reserve:
    on: {source: shop}
    account: "'customer ' + meta.id"
    steps:
      reserve:
        http: {sink: stock, method: POST, path: %s}
        key: "meta.id"
        body: '{"event": meta.id}'
        output: {id: body.id}
`, path)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/reservations")
	p := d.start("--config", file)
	// requests returns the paths of the requests that the sink received, by event.
	requests := func() (paths map[string]string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.sandbox(p)+"/sinks", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var records []struct {
			First bool
			Body  struct {
				Sink, Path string
				Body       struct{ Event string }
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&records); err != nil {
			t.Fatal(err)
		}
		paths = map[string]string{}
		for _, r := range records {
			if r.First {
				paths[r.Body.Body.Event] += r.Body.Sink + r.Body.Path
			}
		}
		return paths
	}
	reserved := func(id, path string) {
		t.Helper()
		d.pawl("send", "--source", "shop", "--event-id", id, "--duplicates", "2")
		await(t, patience, func() error {
			if got := requests()[id]; got != path {
				return fmt.Errorf("%s was sent to %q, want %q", id, got, path)
			}
			return nil
		})
	}
	said := func(text string, times int) {
		t.Helper()
		await(t, patience, func() error {
			if n := strings.Count(p.stderr.String(), text); n != times {
				return fmt.Errorf("dev printed %q %d times, want %d:\n%s", text, n, times, p.stderr.String())
			}
			return nil
		})
	}
	said("sources, sinks, notify (replaced by the sandbox)", 1)
	said("database, console (not used)", 1)
	said("not used: console.users. The console of pawl dev has no sign-in: everyone is dev, with the role admin.", 1)
	reserved("evt_before", "stock/reservations")

	write("reservations") // a path begins with a slash
	said("cannot be used; pawl continues with its previous content", 1)
	said("flows.reserve.steps.reserve.http.path", 1)
	write("/bookings")
	said("config    in use after", 1)
	reserved("evt_after", "stock/bookings")
	var listed []struct {
		Account string `json:"our_account"`
		Event   string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(d.pawl("events", "list", "--account", "customer evt_after")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 1 || listed[0].Account != "customer evt_after" || listed[0].Event != "evt_after" {
		t.Errorf("the events of the account are %+v, want one", listed)
	}
	if out, err := d.try("events", "list", "--account", "customer unknown"); err == nil {
		t.Errorf("the events of an unknown account are %s, want an error", out)
	}
	if sinks := d.pawl("sinks"); !strings.Contains(sinks, `"notify:team"`) || !strings.Contains(sinks, `"stock:live"`) {
		t.Errorf("the sinks are %s, want those of the file", sinks)
	}
}
