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

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// docs/providers.md is generated from the code: go test ./cmd/pawl -run TestDocs_Providers -update
func TestDocs_Providers_AreFresh(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "providers", "--markdown")
	if r.Code != 0 {
		t.Fatalf("exit %d, %s", r.Code, r.Err)
	}
	page := filepath.Join(repository, "docs", "providers.md")
	if *update {
		if err := os.WriteFile(page, []byte(r.Out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if commandtest.Read(t, page) != r.Out {
		t.Errorf("%s differs from the providers' contracts: run go test ./cmd/pawl -run TestDocs_Providers -update", page)
	}
	for _, name := range slices.Sorted(maps.Keys(providers())) {
		_, section, found := strings.Cut(r.Out, "\n## `"+name+"`\n")
		if section, _, _ = strings.Cut(section, "\n## "); !found || !strings.Contains(section, "| Signature | ") {
			t.Errorf("%s has no section", name)
		}
		if got, want := strings.Count(section, "| Option `"), len(providers()[name].Contract.Options); got != want {
			t.Errorf("the section of %s has %d options, want %d", name, got, want)
		}
	}
}

// Every contract of a provider has the required values.
func TestProviders_ContractsAreWhole(t *testing.T) {
	t.Parallel()
	for _, p := range commandtest.Decode[[]providerReport](t, pawl(t, nil, "providers", "--json")) {
		for what, value := range map[string]string{"scheme": p.Scheme, "id": p.ID, "type": p.Type, "dedupe": p.Dedupe, "retries": p.Retries, "disables": p.Disables} {
			if value == "" {
				t.Errorf("%s does not contain %s", p.Name, what)
			}
		}
		if p.BodyLimit < 1<<20 {
			t.Errorf("%s takes bodies of %d bytes, want a MiB at least", p.Name, p.BodyLimit)
		}
	}
	if r := pawl(t, nil, "providers"); r.Code != 0 || !strings.Contains(r.Out, "stripe") {
		t.Errorf("exit %d, %q", r.Code, r.Out)
	}
	if r := pawl(t, nil, "providers", "--json", "--markdown"); r.Code != 2 {
		t.Errorf("both forms: exit %d, want 2", r.Code)
	}
}

// A signing scheme is used by many senders, so each source of a scheme has its own event IDs, and one source cannot
// use the event IDs of another. The documentation lists exactly these schemes.
func TestProviders_WaysOfSigning_AreApart(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "configuration.md"))
	said := regexp.MustCompile("Two sources with the provider (.+) are two senders").FindStringSubmatch(page)
	if said == nil {
		t.Fatal("docs/configuration.md does not name them")
	}
	for _, p := range allProviders() {
		if named := strings.Contains(said[1], "`"+p.Name+"`"); named != p.Contract.Generic {
			t.Errorf("%s: its sources are senders of their own: %t, and the page names it: %t", p.Name, p.Contract.Generic, named)
		}
	}
}

// If it is unknown whether a retry has a new signature, and the signed content identifies events, then the time
// tolerance covers the provider's retries. In this case a repeated delivery is always a duplicate, so a large
// tolerance is safe.
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
