package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// The tables in docs/providers.md and in the README are what the code says. This test writes them:
// go test ./cmd/pawl -run TestDocs_Providers -update
func TestDocs_Providers_AreFresh(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "providers", "--markdown")
	if r.code != 0 {
		t.Fatalf("exit %d, %s", r.code, r.err)
	}
	readme := filepath.Join(repository, "README.md")
	const begin, end = "<!-- providers -->\n", "<!-- /providers -->\n"
	before, rest, found := strings.Cut(read(t, readme), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("README.md has no place for the table between %q and %q", begin, end)
	}
	for file, want := range map[string]string{
		filepath.Join(repository, "docs", "providers.md"): r.out,
		readme: before + begin + shortProviders() + end + after,
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, file) != want {
			t.Errorf("%s is not what the providers' contracts say: run go test ./cmd/pawl -run TestDocs_Providers -update", file)
		}
	}
	for _, name := range providerNames() {
		tables, options, _ := strings.Cut(r.out, "## Options")
		if strings.Count(tables, "| `"+name+"` |") != 2 {
			t.Errorf("%s does not stand in both tables", name)
		}
		if strings.Count(options, "| `"+name+"` |") != len(providers()[name].Contract.Options) {
			t.Errorf("not every option of %s is told", name)
		}
	}
}

// shortProviders is the README's table: what docs/providers.md says, without the small print.
func shortProviders() string {
	var b strings.Builder
	b.WriteString("| provider | what is verified | what identifies an event | tries again | gives up |\n|---|---|---|---|---|\n")
	encodings := strings.NewReplacer(", hex", "", ", base64", "", "; base64", "", "|", `\|`)
	brackets := regexp.MustCompile(` \([^)]*\)`)
	for _, p := range allProviders() {
		c := p.Contract
		identity, _, _ := strings.Cut(brackets.ReplaceAllString(c.Dedupe, ""), ": ")
		again := gist(c.Retries)
		if c.RetryFor >= time.Hour && c.RetryFor%time.Hour == 0 {
			again = "for " + span(c.RetryFor)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", p.Name, encodings.Replace(c.Scheme), gist(identity), again, gist(c.Disables))
	}
	return b.String()
}

// gist is what a contract's text says first.
func gist(s string) string {
	if s, _, _ = strings.Cut(s, "; "); s == "not published" {
		return "–"
	}
	return s
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

// A way of signing is no sender: each source of one has event IDs of its own, or one could take another's. The page names
// them, and those that it names are all.
func TestProviders_WaysOfSigning_AreApart(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join(repository, "docs", "configuration.md"))
	said := regexp.MustCompile("Each source of (.+) is a sender with IDs of its own").FindStringSubmatch(page)
	if said == nil {
		t.Fatal("docs/configuration.md does not name them")
	}
	for _, p := range allProviders() {
		if named := strings.Contains(said[1], "`"+p.Name+"`"); named != p.Contract.Generic {
			t.Errorf("%s: its sources are senders of their own: %t, and the page names it: %t", p.Name, p.Contract.Generic, named)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", 72 * time.Hour: "3 d", 24 * time.Hour: "24 h", 10 * time.Minute: "10 min", 90 * time.Second: "90 s", 2500 * time.Millisecond: "2.5 s"} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
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
