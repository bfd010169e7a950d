package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The table in the documents is what the code says.
func TestProviders_DocumentIsFresh(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "providers", "--markdown")
	if r.code != 0 {
		t.Fatalf("exit %d, %s", r.code, r.err)
	}
	path := filepath.Join("..", "..", "docs", "providers.md")
	held, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(held) != r.out {
		t.Error("docs/providers.md is not what `pawl providers --markdown` writes: run go run ./cmd/pawl providers --markdown > docs/providers.md")
	}
	for _, name := range providerNames() {
		if strings.Count(r.out, "| `"+name+"` |") != 2 {
			t.Errorf("%s does not stand in both tables", name)
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
	}
	if r := pawl(t, nil, "providers"); r.code != 0 || !strings.Contains(r.out, "stripe") {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	if r := pawl(t, nil, "providers", "--json", "--markdown"); r.code != 2 {
		t.Errorf("both forms: exit %d, want 2", r.code)
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
