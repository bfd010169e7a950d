package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// The tables in docs/providers.md are what the code says. This test writes them:
// go test ./cmd/pawl -run TestDocs_Providers -update
func TestDocs_Providers_AreFresh(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "providers", "--markdown")
	if r.code != 0 {
		t.Fatalf("exit %d, %s", r.code, r.err)
	}
	page := filepath.Join(repository, "docs", "providers.md")
	if *update {
		if err := os.WriteFile(page, []byte(r.out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, page) != r.out {
		t.Errorf("%s is not what the providers' contracts say: run go test ./cmd/pawl -run TestDocs_Providers -update", page)
	}
	for _, name := range slices.Sorted(maps.Keys(providers())) {
		tables, options, _ := strings.Cut(r.out, "## Options")
		if strings.Count(tables, "| `"+name+"` |") != 2 {
			t.Errorf("%s does not stand in both tables", name)
		}
		if strings.Count(options, "| `"+name+"` |") != len(providers()[name].Contract.Options) {
			t.Errorf("not every option of %s is told", name)
		}
	}
}

// Every contract says what the table needs.
func TestProviders_ContractsAreWhole(t *testing.T) {
	t.Parallel()
	for _, p := range decode[[]providerReport](t, pawl(t, nil, "providers", "--json")) {
		for what, value := range map[string]string{"scheme": p.Scheme, "id": p.ID, "type": p.Type, "dedupe": p.Dedupe, "retries": p.Retries, "disables": p.Disables} {
			if value == "" {
				t.Errorf("%s says nothing about %s", p.Name, what)
			}
		}
		if p.BodyLimit < 1<<20 {
			t.Errorf("%s takes bodies of %d bytes, want a MiB at least", p.Name, p.BodyLimit)
		}
	}
	if r := pawl(t, nil, "providers"); r.code != 0 || !strings.Contains(r.out, "stripe") {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	if r := pawl(t, nil, "providers", "--json", "--markdown"); r.code != 2 {
		t.Errorf("both forms: exit %d, want 2", r.code)
	}
}

// A way of signing is no sender: each source of one has event IDs of its own, or one could take another's. The page
// names them, and those that it names are all.
func TestProviders_WaysOfSigning_AreApart(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join(repository, "docs", "configuration.md"))
	said := regexp.MustCompile("Each source of (.+) is a sender with its own IDs").FindStringSubmatch(page)
	if said == nil {
		t.Fatal("docs/configuration.md does not name them")
	}
	for _, p := range allProviders() {
		if named := strings.Contains(said[1], "`"+p.Name+"`"); named != p.Contract.Generic {
			t.Errorf("%s: its sources are senders of their own: %t, and the page names it: %t", p.Name, p.Contract.Generic, named)
		}
	}
}

// Where nobody knows whether a retry is signed anew, and the event is known by what is signed, the clock lets the
// provider's own retries in: what comes twice is one event for ever, so that a wide clock costs nothing.
func TestProviders_RetryUnderTheFirstTime_Admitted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"discord", "zoom"} {
		p := providers()[name]
		keys, err := p.Sample.NewKeys()
		if err != nil {
			t.Fatal(err)
		}
		v, err := p.New(webhook.Settings{Source: name, Mode: webhook.Live, Secrets: []webhook.Secret{{Label: "a", Value: keys.Verify}}})
		if err != nil {
			t.Fatal(err)
		}
		first := time.Unix(1_772_366_400, 0)
		out, err := p.Sign(webhook.SignInput{Secret: keys.Sign, At: first, Body: []byte(`{"event":"meeting.started","type":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		again := &webhook.Request{Method: "POST", Header: out.Header, Body: out.Body, ReceivedAt: first.Add(p.Contract.RetryFor + 30*time.Second)}
		if _, err := v.Verify(again); err != nil {
			t.Errorf("%s: the last retry: %v", name, err)
		}
		again.ReceivedAt = first.Add(2 * p.Contract.RetryFor)
		if _, err := v.Verify(again); err == nil {
			t.Errorf("%s: admitted long after the last retry", name)
		}
	}
}
