package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

func TestConfigCheck_Fine(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	if r := s.Pawl(t, "config", "check"); r.Code != 0 || !strings.Contains(r.Out, "is fine") || r.Err != "" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.Code, r.Out, r.Err)
	}
	r := s.Pawl(t, "config", "check", "--json")
	if got := commandtest.Decode[configResult](t, r); !got.OK || r.Code != 0 {
		t.Errorf("exit %d, %+v; want ok", r.Code, got)
	}
}

func TestConfigCheck_Faults_ExitOneAndListed(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"a": "stripe", "b": "strip"}).With("SECRET", "short")
	r := s.Pawl(t, "config", "check", "--json")
	got := commandtest.Decode[configResult](t, r)
	if r.Code != 1 || got.OK || len(got.Faults) != 3 {
		t.Errorf("exit %d, %+v; want 1 and three faults: two short secrets, one provider", r.Code, got)
	}
	r = s.Pawl(t, "config", "check")
	if !strings.Contains(r.Out, `did you mean "stripe"?`) || !strings.Contains(r.Err, "3 faults") {
		t.Errorf("stdout %q, stderr %q", r.Out, r.Err)
	}
}

// A secret that is long enough but not a valid key of its provider is reported before the ingress starts.
func TestConfigCheck_ProviderRefusesKey_Fault(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"adyen": "adyen"}).With("SECRET", "not hexadecimal, but long enough")
	r := s.Pawl(t, "config", "check", "--json")
	got := commandtest.Decode[configResult](t, r)
	if r.Code != 1 || len(got.Faults) != 1 || got.Faults[0].Key != "sources.adyen" || got.Faults[0].Line == 0 {
		t.Errorf("exit %d, %+v; want one fault of sources.adyen", r.Code, got)
	}
	if strings.Contains(r.Out, "not hexadecimal, but") {
		t.Error("the secret was printed")
	}
}

// The secrets of Square and Zoom have 22 characters, and users cannot choose longer ones.
func TestConfigCheck_SecretsAsTheProviderMakesThem(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"square": "square", "zoom": "zoom", "slack": "slack"})
	const made = "Ibxx_5AKakO-3qeNVR61Dw" // from the tests of Square's SDK
	for secret, short := range map[string]int{made: 1, made[1:]: 3} {
		r := s.With("SECRET", secret).Pawl(t, "config", "check")
		if n := strings.Count(r.Out, "the secret has "); n != short || !strings.Contains(r.Out, "sources.slack.secrets[0].value") {
			t.Errorf("a secret of %d bytes: %d sources report it as too short, want %d:\n%s", len(secret), n, short, r.Out)
		}
	}
}

// An example secret from documentation is long enough but public, and anybody can create signatures for a public key
// of zeros. `pawl config check` and the start of the ingress reject both, with the position in the configuration.
func TestConfigCheck_SecretThatIsNone_RefusedAtStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ provider, secret, key, says string }{
		{"stripe", "whsec_REPLACE_ME_REPLACE_ME_REPLACE_ME", "sources.x.secrets[0].value", "a placeholder"},
		{"github", "changemechangemechangeme", "sources.x.secrets[0].value", "a placeholder"},
		{"gitlab", "changemechangemechangeme", "sources.x.secrets[0].value", "a placeholder"},
		{"adyen", strings.Repeat("0", 64), "sources.x.secrets[0].value", "one repeated character"},
		{"svix", "whsec_" + base64.StdEncoding.EncodeToString([]byte("changemechangemechangeme")), "sources.x", "secrets[0] (secret-1): it contains"},
		{"discord", "01" + strings.Repeat("0", 62), "sources.x.secrets[0].value", "one repeated character"},
		{"discord", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "sources.x", "anybody can sign for"},
		{"svix", "whpk_xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA3o=", "sources.x", "anybody can sign for"},
	} {
		s := setup(t, "postgres://localhost/pawl", map[string]string{"x": c.provider + ", mode: live"}).With("SECRET", c.secret)
		// the ops listener is irrelevant in this test
		commandtest.Write(t, s.File, commandtest.Read(t, s.File)+"ops: {ingress: '127.0.0.1:0'}\n")
		got := commandtest.Decode[configResult](t, s.Pawl(t, "config", "check", "--json"))
		if len(got.Faults) != 1 || got.Faults[0].Key != c.key || !strings.Contains(got.Faults[0].Problem, c.says) {
			t.Errorf("%s, %s: %+v; want one fault of %s that contains %q", c.provider, c.secret, got.Faults, c.key, c.says)
		}
		if r := s.Pawl(t, "ingress"); r.Code == 0 || !strings.Contains(r.Err, c.says) {
			t.Errorf("%s, %s: the ingress: exit %d, %q", c.provider, c.secret, r.Code, r.Err)
		}
	}
}

// A key may be shorter than the text that encodes it. The advice in the error must not recommend a rejected setting:
// short secrets are only allowed in dev.
func TestConfigCheck_ShortKey_NoAdviceThatIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"svix": "svix"}).With("SECRET", "whsec_"+strings.Repeat("abcd", 5))
	if r := s.Pawl(t, "config", "check"); !strings.Contains(r.Out, "it has 15 bytes, fewer than 24") || strings.Contains(r.Out, "allow_short_secrets") {
		t.Errorf("output: %s", r.Out)
	}
}

// Every error has its own line, even if a provider reports several at once.
func TestConfigCheck_SeveralFaultsOfAProvider_LineEach(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"paypal": "paypal", "tickets": "hmac"})
	r := s.Pawl(t, "config", "check")
	// These settings are missing: a mode for each source, PayPal's webhook ID and certificate, and the header of
	// hmac.
	for _, says := range []string{"sources.paypal.mode", "sources.tickets.mode", "webhook_id", "header"} {
		if !strings.Contains(r.Out, says) {
			t.Errorf("output does not contain %q", says)
		}
	}
	if r.Code != 1 || strings.Contains(r.Out, `\u000a`) || strings.Contains(r.Out, "source paypal") {
		t.Errorf("exit %d, stdout:\n%s", r.Code, r.Out)
	}
}

// Only one provider works without a secret, and it requires an option for that.
func TestConfigCheck_PayPalFetchesItsCertificate_NoSecret(t *testing.T) {
	t.Parallel()
	const secret = "secrets: [{value: env:SECRET}]"
	s := setup(t, "postgres://localhost/pawl", map[string]string{"pay": "paypal", "stripe": "stripe"})
	given := commandtest.Read(t, s.File)
	for options, ok := range map[string]bool{
		"mode: live, options: {webhook_id: W1, certificates: fetch}": true,
		"mode: live, options: {webhook_id: W1}":                      false,
		"mode: live, options: {webhook_id: W1, certificate: fetch}":  false,
	} {
		before, after, found := strings.Cut(given, "provider: paypal, ")
		if !found || !strings.Contains(after, secret) {
			t.Fatalf("no source of paypal in\n%s", given)
		}
		commandtest.Write(t, s.File, before+"provider: paypal, "+strings.Replace(after, secret, options, 1))
		if r := s.Pawl(t, "config", "check"); (r.Code == 0) != ok || !ok && !strings.Contains(r.Out, "certificates: fetch") && !strings.Contains(r.Out, "write one of") {
			t.Errorf("%s: exit %d, stdout:\n%s", options, r.Code, r.Out)
		}
		cfg, err := config.Load(s.File, s.Variable, providers())
		if err == nil {
			_, err = process.Sources(cfg, providers())
		}
		if (err == nil) != ok {
			t.Errorf("%s: the ingress starts with %v, and the check returns %t", options, err, ok)
		}
	}
}

func TestConfigCheck_Warning_NotFine(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "{value: env:SECRET}", "{value: env:SECRET, not_after: 2020-01-31T00:00:00Z}", 1))
	r := s.Pawl(t, "config", "check")
	if r.Code != 0 || strings.Contains(r.Out, "is fine") || !strings.Contains(r.Out, "every delivery is rejected") || !strings.Contains(r.Out, "1 warning") {
		t.Errorf("exit %d, stdout %q; want the warning and no \"is fine\"", r.Code, r.Out)
	}
}

func TestConfigCheck_SecretFileMode_Warning(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	secret := s.File + ".secret"
	if err := os.WriteFile(secret, []byte(commandtest.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	yaml, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.File, []byte(strings.Replace(string(yaml), "env:SECRET", "file:"+secret, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := s.Pawl(t, "config", "check", "--json")
	if got := commandtest.Decode[configResult](t, r); r.Code != 0 || len(got.Warnings) != 1 {
		t.Errorf("exit %d, %+v; want ok with one warning", r.Code, got)
	}
}

// loaded returns the configuration of a file that init wrote, with its environment variables set.
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
	if r := pawl(t, nil, args...); r.Code != 0 || !strings.Contains(r.Out, "pawl dev --config "+file) {
		t.Fatalf("exit %d, %q, %q", r.Code, r.Out, r.Err)
	}
	cfg := loaded(t, file)
	if got := cfg.Plans; len(got.Prices) != 3 || got.Prices["price_3"].Plan != "pro" || strings.Join(got.Order, " ") != "starter pro" {
		t.Errorf("plans %+v", got)
	}
	if s := cfg.Sources["stripe"]; s.Mode != "live" || s.URL != "https://hooks.example.com/hooks/stripe" || cfg.Sinks["workspaces"].URL != "https://app.example.com" ||
		cfg.Sinks["finance"].URL != "https://books.example.com" || cfg.Sinks["email"].Address != "smtp.example.com:587" {
		t.Errorf("%+v, %+v", s, cfg.Sinks)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// A file that a person may have edited is not overwritten.
	if err := os.WriteFile(file, []byte("# mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := pawl(t, nil, args...); r.Code != 1 || !strings.Contains(r.Err, "was not changed") {
		t.Errorf("exit %d, %q", r.Code, r.Err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "# mine" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestInit_AskedNothing_TakesDefaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	// Standard input is empty, so every answer is empty.
	if r := pawl(t, nil, "init", "--config", file); r.Code != 0 || strings.Count(r.Err, ": ") < 3 {
		t.Fatalf("exit %d, %q", r.Code, r.Err)
	}
	cfg := loaded(t, file)
	if len(cfg.Sinks["workspaces"].Modes()) != 0 || cfg.Plans.Prices["price_pro"].Plan != "pro" || cfg.Sources["stripe"].Mode != "test" {
		t.Errorf("%+v", cfg)
	}
}

// Thin events require the key that fetches their objects.
func TestInit_Thin_KeyAndPayload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	if r := pawl(t, nil, "init", "--yes", "--thin", "--config", file); r.Code != 0 {
		t.Fatalf("exit %d, %q", r.Code, r.Err)
	}
	if text := commandtest.Read(t, file); !strings.Contains(text, "    api_key: env:STRIPE_API_KEY\n    options: {payload: thin}\n") {
		t.Errorf("written:\n%s", text)
	}
}

func TestInit_WrongAnswers_Told(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--prices", "price_1"}, {"--prices", "price 1=pro"}, {"--mode", "both"}, {"--workspaces", "https://x/\"y"},
		{"--prices", "price_1=starter,price_1=pro"}, {"--prices", "price_1=null"}, {"--public-url", "http://hooks.example.com"}, {"--finance", "books"},
		{"--smtp", "smtp.example.com"}, {"--from", "billing"},
	} {
		file := filepath.Join(t.TempDir(), "own.yaml")
		if r := pawl(t, nil, append([]string{"init", "--yes", "--config", file}, args...)...); r.Code != 2 || !strings.Contains(r.Err, args[0]) {
			t.Errorf("%v: exit %d, %q", args, r.Code, r.Err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v: a file was written", args)
		}
	}
}

// Without the warning, an operator would not notice a source without a destination: its events are answered with 200
// and ignored.
func TestConfigCheck_UnroutedSource_Warning(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"hooks": "github, mode: live"})
	r := s.Pawl(t, "config", "check")
	if r.Code != 0 || strings.Contains(r.Out, "is fine") || !strings.Contains(r.Out, "sources.hooks: pawl ignores all events of this source") {
		t.Errorf("exit %d, stdout %q; want the warning", r.Code, r.Out)
	}
}

// Only long-running processes warn about the file modes of secrets; commands do not.
func TestConfig_SecretFileMode_NotOfCommands(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	secret := s.File + ".secret"
	commandtest.Write(t, secret, commandtest.Secret)
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "env:SECRET", "file:"+secret, 1))
	if r := s.Pawl(t, "sinks", "check"); strings.Contains(r.Err, "chmod") {
		t.Errorf("a command warns: %s", r.Err)
	}
	if r := s.Pawl(t, "config", "check"); strings.Count(r.Out, "chmod 600") != 1 {
		t.Errorf("config check: %s", r.Out)
	}
}

// `pawl init` and the documentation list the same permissions of an api_key as the code.
func TestKeyRights_OneList(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"../../docs/configuration.md": "may read " + config.KeyRights(),
		"../../docs/first-day.md":     "read access to " + config.KeyRights(),
	} {
		if !strings.Contains(commandtest.Read(t, file), text) {
			t.Errorf("%s does not hold %q", file, text)
		}
	}
	if text := string(template.Init(template.InitParams{Mode: "test"})); !strings.Contains(text, "read access to "+config.KeyRights()+".") {
		t.Errorf("init writes %s", text)
	}
}

func TestVersion_Flag(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/pawl", map[string]string{"stripe": "stripe"})
	flag, command := s.Pawl(t, "--version"), s.Pawl(t, "version")
	if flag.Code != 0 || flag.Out != command.Out || !strings.HasPrefix(flag.Out, "pawl ") {
		t.Errorf("exit %d, %q; want %q", flag.Code, flag.Out, command.Out)
	}
}
