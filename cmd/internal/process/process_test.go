package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// providers are the providers of this package's tests.
var providers = map[string]webhook.Provider{"stripe": stripe.Provider}

// load returns a configuration with a Stripe source, for the database at dsn.
func load(t *testing.T, dsn string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	write(t, file, "database: env:DSN\nplans: {prices: {price_pro: pro}, features: {pro: [api]}}\n"+
		"sources:\n  stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}\n")
	env := map[string]string{"DSN": dsn, "SECRET": "whsec_0123456789abcdef0123456789abcdef"}
	cfg, err := config.Load(file, func(key string) (string, bool) { v, ok := env[key]; return v, ok }, providers)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// open returns a node for the database at dsn. tune may change its configuration.
func open(t *testing.T, dsn string, tune func(*config.Config)) *Node {
	t.Helper()
	cfg := load(t, dsn)
	if tune != nil {
		tune(cfg)
	}
	n, err := New(t.Context(), cfg, providers, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// noTemporal sets the address of a server that is down.
func noTemporal(t *testing.T, cfg *config.Config) {
	t.Helper()
	cfg.Temporal.ConfigFile = filepath.Join(t.TempDir(), "temporal.toml")
	write(t, cfg.Temporal.ConfigFile, "[profile.default]\naddress = \"127.0.0.1:1\"\n")
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition is true.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}
