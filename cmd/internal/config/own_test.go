package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
)

const own = `# mine
database: env:PRODUCTION
sources:
  payments: {provider: stripe, mode: test, secrets: [{value: file:whsec}]}
sinks:
  # ours
  workspaces: {url: "https://app.example.com", token: "file:secrets/token"}
email:
  templates: letters # beside this file
plans:
  prices: {price_1ABC: gold}
  features:
    gold: [everything]
`

func devParams() template.DevParams {
	return template.DevParams{
		Ingress: "127.0.0.1:8080", Console: "127.0.0.1:8081", Ops: "127.0.0.1:8082", WorkerOps: "127.0.0.1:0",
		WorkspacesURL: "http://127.0.0.1:9001", FinanceURL: "http://127.0.0.1:9002", SMTP: "127.0.0.1:9003", EventsURL: "http://127.0.0.1:9004/events",
	}
}

// devOf loads the configuration that dev creates from a user's file in a neighboring directory.
func devOf(t *testing.T, content string, world bool) *config.Config {
	t.Helper()
	home, state := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(home, "secrets"), filepath.Join(home, "letters"), filepath.Join(state, "secrets")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(home, "pawl.yaml")
	made, err := config.MergeDev(template.Dev(devParams()), file, []byte(content), world)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		file: content, filepath.Join(home, "whsec"): longSecret, filepath.Join(home, "secrets/token"): "t0ken",
		filepath.Join(state, "pawl.yaml"): string(made), filepath.Join(state, "database.url"): dsn, filepath.Join(state, "secrets/stripe"): longSecret,
		filepath.Join(state, "temporal.toml"): "[profile.default]\naddress = \"127.0.0.1:7233\"\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(state, "pawl.yaml"), environment, known)
	if err != nil {
		t.Fatalf("%v\n%s", err, made)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != content {
		t.Errorf("the file was changed: %q, %v", after, err)
	}
	return cfg
}

func TestMergeDev_Sandbox_OwnRulesAlone(t *testing.T) {
	t.Parallel()
	cfg := devOf(t, own, false)
	if cfg.Plans.Prices["price_1ABC"].Plan != "gold" || len(cfg.Plans.Prices) != 1 || len(cfg.Plans.Onboarding) != 0 {
		t.Errorf("plans %+v, want those of the file", cfg.Plans)
	}
	if _, ok := cfg.Sources["stripe"]; !ok || cfg.Sinks["workspaces"].URL != "http://127.0.0.1:9001" || cfg.Database.Value() != dsn || !cfg.Dev.Enabled {
		t.Errorf("sources %v, sinks %+v; want the sandbox", cfg.Sources, cfg.Sinks)
	}
}

// The outline of a file contains the sources, the sinks of flows and the recipients, and no secrets.
func TestReadOutline(t *testing.T) {
	t.Parallel()
	o, err := config.ReadOutline([]byte(own + `
flows: {ship: {on: {source: shop}, steps: {}}}
notify:
  quiet: {from: "22:00", to: "06:00"}
  sinks: {on-call: {kind: slack, url: env:SLACK, only: pages}}
console: {users: people, oidc: {issuer: "https://login.test"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if o.Sources["payments"].Provider != "stripe" || o.Sources["payments"].Mode != "test" || len(o.Sinks) != 0 ||
		o.Notify.Sinks["on-call"].Only != "pages" || o.Notify.Quiet["from"] != "22:00" ||
		strings.Join(o.SignIn(), " ") != "console.users console.oidc" {
		t.Errorf("%+v", o)
	}
	o, err = config.ReadOutline([]byte("sinks:\n  stock: {live: {url: https://stock.test}, refusals: [409, {status: 403, code: sold_out}]}\n"))
	if stock := o.Sinks["stock"]; err != nil || len(stock.Refusals) != 2 || stock.Live == nil || stock.Test != nil {
		t.Errorf("%+v, %v; want the sink of flows with its refusals", o, err)
	}
	if _, err := config.ReadOutline([]byte("a: [")); err == nil {
		t.Error("a file that is not YAML was read")
	}
}

func TestDescribeUse(t *testing.T) {
	t.Parallel()
	for world, want := range map[bool]string{
		false: "email, plans (as written); sources, sinks (replaced by the sandbox); database (not used)",
		true:  "sources, sinks, email, plans (as written); database (not used)",
	} {
		if got := config.DescribeUse([]byte(own), world); got != want {
			t.Errorf("with real systems %v: %s, want %s", world, got, want)
		}
	}
}

func TestMergeDev_Real_OwnSourcesAndSinks(t *testing.T) {
	t.Parallel()
	cfg := devOf(t, own, true)
	if len(cfg.Sources) != 1 || cfg.Sources["payments"].Secrets[0].Value.Value() != longSecret {
		t.Errorf("sources %+v, want that of the file", cfg.Sources)
	}
	if cfg.Sinks["workspaces"].URL != "https://app.example.com" || cfg.Sinks["workspaces"].Token.Value() != "t0ken" || cfg.Sinks["finance"].URL != "" {
		t.Errorf("sinks %+v, want those of the file alone", cfg.Sinks)
	}
	if cfg.Database.Value() != dsn || cfg.Ingress.Listen != "127.0.0.1:8080" {
		t.Error("the database and the listeners are dev's")
	}
}

func TestMergeDev_NotToBeRead_Told(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{"a: [": "not YAML", "plans: {}\n": "has no sources"} {
		if _, err := config.MergeDev(template.Dev(devParams()), "pawl.yaml", []byte(content), true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", content, err, says)
		}
	}
}
