package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// loaded is what a file of init says, with the variables that it names set.
func loaded(t *testing.T, file string) *config.Config {
	t.Helper()
	cfg, err := config.Load(file, func(name string) (string, bool) {
		value, ok := map[string]string{"DATABASE_URL": "postgres://pawl@localhost/pawl", "STRIPE_WEBHOOK_SECRET": "whsec_0123456789abcdefghijklmnop"}[name]
		return value, ok
	}, providers())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestInit_Flags_WriteWhatLoads(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	args := []string{
		"init", "--yes", "--config", file, "--prices", "price_1ABC=starter,price_2DEF=pro,price_3=pro", "--mode", "live", "--public-url", "https://hooks.example.com",
		"--workspaces", "https://app.example.com", "--finance", "https://books.example.com", "--smtp", "smtp.example.com:587", "--from", "billing@example.com",
	}
	if r := pawl(t, nil, args...); r.code != 0 || !strings.Contains(r.out, "pawl dev --config "+file) {
		t.Fatalf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	cfg := loaded(t, file)
	if got := cfg.Plans; len(got.Prices) != 3 || got.Prices["price_3"].Plan != "pro" || strings.Join(got.Order, " ") != "starter pro" {
		t.Errorf("plans %+v", got)
	}
	if s := cfg.Sources["stripe"]; s.Mode != "live" || s.URL != "https://hooks.example.com/hooks/stripe" || cfg.Sinks.Workspaces.URL != "https://app.example.com" ||
		cfg.Sinks.Finance.URL != "https://books.example.com" || cfg.Sinks.Email.Address != "smtp.example.com:587" {
		t.Errorf("%+v, %+v", s, cfg.Sinks)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// What a person may have edited is left as it is.
	if err := os.WriteFile(file, []byte("# mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := pawl(t, nil, args...); r.code != 1 || !strings.Contains(r.err, "left as it is") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "# mine" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestInit_AskedNothing_TakesDefaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	// There is no input: every answer is empty.
	if r := pawl(t, nil, "init", "--config", file); r.code != 0 || strings.Count(r.err, ": ") < 3 {
		t.Fatalf("exit %d, %q", r.code, r.err)
	}
	cfg := loaded(t, file)
	if len(cfg.Sinks.Workspaces.Modes()) != 0 || cfg.Plans.Prices["price_pro"].Plan != "pro" || cfg.Sources["stripe"].Mode != "test" {
		t.Errorf("%+v", cfg)
	}
}

func TestInit_WrongAnswers_Told(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--prices", "price_1"}, {"--prices", "price 1=pro"}, {"--mode", "both"}, {"--workspaces", "https://x/\"y"},
		{"--prices", "price_1=starter,price_1=pro"}, {"--prices", "price_1=null"}, {"--public-url", "http://hooks.example.com"}, {"--finance", "books"},
		{"--smtp", "smtp.example.com"}, {"--from", "billing"},
	} {
		file := filepath.Join(t.TempDir(), "own.yaml")
		if r := pawl(t, nil, append([]string{"init", "--yes", "--config", file}, args...)...); r.code != 2 || !strings.Contains(r.err, args[0]) {
			t.Errorf("%v: exit %d, %q", args, r.code, r.err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v: a file was written", args)
		}
	}
}
