package change_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/change"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const file = `
database: env:DSN
sources:
  stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}
sinks:
  finance: {url: "https://finance.example.com/v1", token: "env:SECRET"}
plans: {prices: {price_pro: pro}, features: {pro: [api]}}
`

func load(t *testing.T, content, secret string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"DSN": "postgres://localhost/pawl", "SECRET": secret}
	c, err := config.Load(path, func(key string) (string, bool) { v, ok := values[key]; return v, ok },
		map[string]webhook.Provider{"stripe": {Name: "stripe"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The changes are named by their keys, also if only the value behind a reference differs.
func TestBetween_KeysOfChangedSettings(t *testing.T) {
	t.Parallel()
	const secret, other = "whsec_0123456789abcdef0123456789abcdef", "whsec_fedcba9876543210fedcba9876543210"
	before := load(t, file, secret)
	for _, c := range []struct {
		name, content, secret string
		want                  []string
	}{
		{"nothing", file, secret, nil},
		{"the value of a secret", file, other, []string{"sinks.finance.token", "sources.stripe.secrets[0].value"}},
		{"another setting", file + "retention: {payloads: 30d}\n", secret, []string{"retention.payloads"}},
	} {
		after := load(t, c.content, c.secret)
		if got := change.Between(before, after); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := change.Between(after, before); !slices.Equal(got, c.want) {
			t.Errorf("%s, reversed: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"sinks.finance.token": false, "sources.stripe.secrets[0].value": false,
		"temporal.task_queue": true, "database": true, "ops.ingress": true, "databases": false} {
		if change.NeedsRestart(key) != want {
			t.Errorf("%s: %t, want %t", key, !want, want)
		}
	}
}
