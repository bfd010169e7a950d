package config_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	longSecret = "whsec_0123456789abcdef0123456789abcdef"
	dsn        = "postgres://pawl:pw@localhost:5432/pawl"
)

// valid is the smallest complete configuration.
const valid = `
database: env:DSN
sources:
  stripe:
    provider: stripe
    mode: live
    secrets:
      - value: env:STRIPE
sinks:
  workspaces: {url: "https://workspaces.example.com"}
  finance: {url: "https://finance.example.com/v1", key_lifetime: 48h, execution: activity}
  email: {address: "smtp.example.com:587", from: "Billing <billing@example.com>"}
plans:
  prices: {price_pro: pro}
  features: {pro: [api]}
`

func environment(key string) (string, bool) {
	v, ok := map[string]string{"DSN": dsn, "DATABASE_URL": dsn, "STRIPE": longSecret, "SHORT": "short"}[key]
	return v, ok
}

func load(t *testing.T, yaml string) (*config.Config, error) {
	t.Helper()
	return loadWith(t, yaml, environment)
}

func loadWith(t *testing.T, yaml string, environment func(string) (string, bool)) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, environment, known)
}

// known contains the providers, without settings of their own.
var known = map[string]webhook.Provider{
	"stripe": {Name: "stripe"}, "github": {Name: "github"}, "shopify": {Name: "shopify"},
	"hmac": {Name: "hmac", Contract: webhook.Contract{Generic: true}},
}

func TestLoad_Valid_DefaultsFilledIn(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, valid)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Database.Value(); got != dsn {
		t.Errorf("database = %q, want %q", got, dsn)
	}
	if got := cfg.Ingress.BodyLimit; got != 1<<20 {
		t.Errorf("ingress.body_limit = %d, want 1 MiB", got)
	}
	if got := cfg.Sources["stripe"].BodyLimit; got != 0 {
		t.Errorf("the source's body_limit = %d, want 0: the provider's own limit goes before the listener's", got)
	}
	if got := cfg.Temporal.TaskQueue; got != "pawl" {
		t.Errorf("task_queue = %q, want pawl", got)
	}
	fin := cfg.Sinks["finance"]
	if fin.KeyLifetime != 48*time.Hour || fin.Execution != "activity" || fin.Timeout != 10*time.Second {
		t.Errorf("finance = %+v, want what the file says and the default time-out", fin)
	}
	set := cfg.Settings("stripe")
	if len(set.Secrets) != 1 || set.Secrets[0].Value != longSecret || set.Secrets[0].Label != "secret-1" {
		t.Errorf("settings do not hold the resolved secret under a default label: %v", set.Secrets)
	}
}

// Two slashes would precede each path if the base URL ended with a slash. Most APIs do not know such a path, and pawl
// would treat their answer as a refusal and compensate a paid invoice.
func TestLoad_BaseWithSlash_PathsFollowOnce(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, strings.NewReplacer("https://workspaces.example.com", "https://workspaces.example.com/", "/v1", "/v1//").Replace(valid))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Sinks["workspaces"].URL; got != "https://workspaces.example.com" {
		t.Errorf("sinks.workspaces.url = %q, want it without the slash", got)
	}
	if got := cfg.Sinks["finance"].URL; got != "https://finance.example.com/v1" {
		t.Errorf("sinks.finance.url = %q, want it without the slashes", got)
	}
}

func TestLoad_ManyFaults_AllReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, `
datbase: env:DSN
ingress:
  listen: nowhere
  body_limit: 1 potato
sources:
  stripe:
    provider: strip
    mode: prod
    tolerance: -5s
    secrets:
      - {label: a, value: whsec_literal_secret_in_the_file}
      - {label: a, value: env:SHORT}
      - {label: b, value: env:NOT_SET}
      - {label: c, value: file:not-there}
sinks:
  workspaces: {url: "ftp://x", execution: sometimes}
  email: {address: nohost, from: nobody, guarantee: exactly_once}
plans:
  prices: {price_pro: pro}
  onboarding: [enterprise]
`)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("err = %v, want Faults", err)
	}
	want := map[string]string{
		"datbase":                         `did you mean "database"?`,
		"ingress.listen":                  "host:port",
		"ingress.body_limit":              "1MiB",
		"sources.stripe.provider":         `did you mean "stripe"?`,
		"sources.stripe.mode":             "live or test",
		"sources.stripe.tolerance":        "negative",
		"sources.stripe.secrets[0].value": "env:NAME or file:PATH",
		"sources.stripe.secrets[1].label": "label",
		"sources.stripe.secrets[1].value": "5 bytes",
		"sources.stripe.secrets[2].value": "NOT_SET is not set",
		"sources.stripe.secrets[3].value": "cannot be read",
		"sinks.workspaces.url":            "https://host/path",
		"sinks.workspaces.execution":      "local or activity",
		"sinks.email.address":             "host:port",
		"sinks.email.from":                "not an address",
		"sinks.email.guarantee":           "at_most_once or at_least_once",
		"plans.prices.price_pro":          "plans.features",
		"plans.onboarding[0]":             "plans.features",
	}
	got := map[string]config.Fault{}
	for _, f := range faults {
		got[f.Key] = f
	}
	for key, text := range want {
		f, ok := got[key]
		if !ok {
			t.Errorf("no fault for %s", key)
			continue
		}
		if !strings.Contains(f.String(), text) {
			t.Errorf("fault %q does not say %q", f, text)
		}
		if f.Line == 0 {
			t.Errorf("fault %q has no line", f)
		}
		delete(got, key)
	}
	for key, f := range got {
		t.Errorf("unexpected fault of %s: %v", key, f)
	}
	if strings.Contains(err.Error(), "whsec_literal") {
		t.Error("the error repeats a secret from the file")
	}
}

func TestLoad_OneWrongKey_NamesLineAndFix(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, from, to, key, says string }{
		{"unknown key", "provider: stripe", "provider: stripe\n    tolerence: 5m", "sources.stripe.tolerence", `did you mean "tolerance"?`},
		{"no secrets", "    secrets:\n      - value: env:STRIPE\n", "", "sources.stripe.secrets", "cannot verify its deliveries"},
		{"internal event that is none", "sinks:\n", "destinations: {crm: {url: 'https://crm.test', events: [access.changed, billing.invoice.payed]}}\nsinks:\n", "destinations.crm.events[1]", `"billing.invoice.payed" is not an event of pawl`},
		{"noun without a verb", "sinks:\n", "destinations: {crm: {url: 'https://crm.test', events: [billing.invoice]}}\nsinks:\n", "destinations.crm.events[0]", "billing.*"},
		{"list for mapping", "sinks:\n", "destinations: {crm: {url: 'https://crm.test', events: access.changed}}\nsinks:\n", "destinations.crm.events", "not a list"},
		{"destination of nothing", "sinks:\n", "destinations: {crm: {url: 'https://crm.test'}}\nsinks:\n", "destinations.crm", "receives no events"},
		{"unknown sink", "sinks:\n", "sinks:\n  crm: {url: 'https://crm.test'}\n", "sinks.crm", "write workspaces, finance, email, or move an endpoint for events to destinations"},
		{"setting of the other protocol", "from: ", "url: 'https://mail.test', from: ", "sinks.email.url", "described by address, from, tls, username, password"},
		{"duration without unit", "key_lifetime: 48h", "key_lifetime: 48", "sinks.finance.key_lifetime", "with its unit"},
		{"mapping for value", "provider: stripe", "provider: {a: b}", "sources.stripe.provider", "single value"},
		{"sink that is nowhere", `url: "https://finance.example.com/v1", `, "", "sinks.finance.url", "missing"},
		{"billing without a mode", "    mode: live\n", "", "sources.stripe.mode", "must not affect live customers"},
		{"same listener", "database: env:DSN", "database: env:DSN\nops: {ingress: '127.0.0.1:8080'}", "ops.ingress", "ingress.listen"},
		{"both processes' health", "database: env:DSN", "database: env:DSN\nops: {worker: '127.0.0.1:8082'}", "ops.worker", "ops.ingress"},
		{"negative rate", "database: env:DSN", "database: env:DSN\ningress: {limits: {per_source: {per_second: -1}}}", "ingress.limits.per_source.per_second", "negative"},
		{"clear-text password", "from: ", "tls: none, username: u, password: env:SHORT, from: ", "sinks.email.tls", "clear text"},
		{"window turned round", "value: env:STRIPE", "value: env:STRIPE\n        not_before: 2026-02-01T00:00:00Z\n        not_after: 2026-01-01T00:00:00Z", "sources.stripe.secrets[0].not_after", "never be active"},
		{"bad source name", "  stripe:\n", "  Stripe/Live:\n", "sources.Stripe/Live", "lower-case"},
		{"short secrets by option", "provider: stripe", "provider: stripe\n    options: {allow_short_secrets: true}", "sources.stripe.options.allow_short_secrets", "dev"},
		{"port of the public listener", "database: env:DSN", "database: env:DSN\ningress: {listen: ':8080'}\nops: {ingress: '127.0.0.1:8080'}", "ops.ingress", "ingress.listen"},
		{"port by another name", "database: env:DSN", "database: env:DSN\nops: {ingress: 'localhost:8080'}", "ops.ingress", "ingress.listen"},
		{"Temporal's file missing", "database: env:DSN", "database: env:DSN\ntemporal: {config_file: not-there.toml}", "temporal.config_file", "not-there.toml"},
		{"Temporal's UI is no URL", "database: env:DSN", "database: env:DSN\ntemporal: {ui_url: 'temporal.example.com'}", "temporal.ui_url", "not an http or https URL"},
		{"ratio above all", "database: env:DSN", "database: env:DSN\ntracing: {sample_ratio: 100}", "tracing.sample_ratio", "between 0 and 1"},
		{"negative wait", "from: ", "retries: {initial_interval: -1s}, from: ", "sinks.email.retries.initial_interval", "is -1s"},
		{"no wait", "from: ", "retries: {max_interval: 0}, from: ", "sinks.email.retries.max_interval", "is 0s"},
		{"no time for tries", "from: ", "retries: {max_elapsed: 0s}, from: ", "sinks.email.retries.max_elapsed", "is 0s"},
		{"longest wait below the first", "from: ", "retries: {initial_interval: 10m, max_interval: 1m}, from: ", "sinks.email.retries.max_interval", "less than initial_interval"},
		{"no concurrency", "from: ", "max_concurrency: 0, from: ", "sinks.email.max_concurrency", "is 0"},
		{"too many concurrency", "from: ", "max_concurrency: 5000, from: ", "sinks.email.max_concurrency", "write 1 to 1000"},
		{"no rate", "from: ", "rate_limit: 0, from: ", "sinks.email.rate_limit", "is 0"},
		{"less time than the first wait", "from: ", "retries: {initial_interval: 10m, max_elapsed: 1m}, from: ", "sinks.email.retries.max_elapsed", "less than initial_interval"},
		{"body beyond the budget", "database: env:DSN", "database: env:DSN\ningress: {body_limit: 65MiB}", "ingress.body_limit", "64 MiB"},
		{"a source's body beyond the budget", "provider: stripe", "provider: stripe\n    body_limit: 1GiB", "sources.stripe.body_limit", "64 MiB"},
		{"mail server without a host", "smtp.example.com:587", ":587", "sinks.email.address", "host"},
		{"base with a query", "https://workspaces.example.com", "https://workspaces.example.com/v1?tenant=7", "sinks.workspaces.url", "a path is appended"},
		{"base with a fragment", "https://finance.example.com/v1", "https://finance.example.com/v1#entries", "sinks.finance.url", "a path is appended"},
		{"database literal", "env:DSN", dsn, "database", "env:NAME or file:PATH"},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			yaml := strings.Replace(valid, tt.from, tt.to, 1)
			if yaml == valid {
				t.Fatalf("the case changes nothing: %q is not in the file", tt.from)
			}
			_, err := load(t, yaml)
			var faults config.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want Faults", err)
			}
			for _, f := range faults {
				if f.Key == tt.key && strings.Contains(f.String(), tt.says) {
					return
				}
			}
			t.Errorf("faults %v: none of %s that says %q", faults, tt.key, tt.says)
		})
	}
}

// A destination can select every internal event that docs/sinks.openapi.yaml describes.
func TestLoad_DestinationEvents_AllThatAreDescribed(t *testing.T) {
	t.Parallel()
	described, err := os.ReadFile("../../../docs/sinks.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, line := range regexp.MustCompile(`Event:\n +type: object\n +description: (.*)`).FindAllStringSubmatch(string(described), -1) {
		for _, name := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(line[1], -1) {
			for _, t := range []string{name[1], name[1][:strings.LastIndexByte(name[1], '.')] + ".*"} {
				if !slices.Contains(types, t) {
					types = append(types, t)
				}
			}
		}
	}
	if len(types) < 15 {
		t.Fatalf("found only %q", types)
	}
	c, err := load(t, valid+"destinations: {crm: {url: 'https://crm.test', events: ["+strings.Join(types, ", ")+"]}}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Destinations["crm"].Events; !slices.Equal(got, types) {
		t.Errorf("types %q, want %q", got, types)
	}
}

// Errors in the file do not hide errors that only the provider can detect, and no error is reported twice.
func TestCheck_ProvidersFaults_BesideTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(`
database: env:DSN
ingress: {listen: nowhere}
sources:
  code: {provider: github, secrets: [{value: env:SHORT}, {value: env:STRIPE}], options: {legacy: perhaps, legcy: "true"}}
  fine: {provider: stripe, mode: test, secrets: [{value: env:STRIPE}]}
  modeless: {provider: github, secrets: [{value: env:STRIPE}]}
sinks: {workspaces: {url: "http://w.test"}, finance: {url: "http://f.test"}, email: {address: "m.test:25", from: a@b.test}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	take := func(s webhook.Settings) (webhook.Verifier, error) {
		if s.Options["legacy"] == "" {
			return nil, nil
		}
		problems := []error{fmt.Errorf("source %s: options.legacy: use true", s.Source)}
		for _, secret := range s.Secrets {
			if secret.Value == "short" {
				problems = append(problems, errors.New("secrets: told twice"))
			}
		}
		return nil, errors.Join(append(problems, errors.New("another thing"))...)
	}
	_, err := config.Check(path, environment, map[string]webhook.Provider{
		"stripe": {Name: "stripe", Contract: webhook.Contract{Mode: "body livemode"}, New: take}, "github": {Name: "github", New: take, Contract: webhook.Contract{Options: map[string]string{"legacy": "takes SHA-1"}}},
	})
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("err = %v, want Faults", err)
	}
	var got []string
	for _, f := range faults {
		got = append(got, f.Key+" "+f.Problem)
		if f.Line == 0 != strings.HasSuffix(f.Key, ".mode") {
			t.Errorf("%v: want a line, unless it stands nowhere", f)
		}
	}
	want := []string{
		`ingress.listen "nowhere" is not an address`,
		"sources.code options.legacy: use true",
		"sources.code another thing",
		"sources.code.options.legcy is not an option of github",
		"sources.code.secrets[0].value the secret has 5 bytes",
		"sources.code.mode is missing, and events of github do not contain it",
		"sources.modeless.mode is missing, and events of github do not contain it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLoad_NoSecretActive_Warning(t *testing.T) {
	t.Parallel()
	for says, window := range map[string]string{
		"secret-1 ended 2020-01-31":  "\n        not_after: 2020-01-31T00:00:00Z",
		"secret-1 begins 2999-01-31": "\n        not_before: 2999-01-31T00:00:00Z",
		"secret-2 begins 2999-01-31": "\n        not_after: 2020-01-31T00:00:00Z\n      - value: env:DSN\n        not_before: 2999-01-31T00:00:00Z",
		"":                           "\n        not_after: 2020-01-31T00:00:00Z\n      - value: env:DSN",
	} {
		cfg, err := load(t, strings.Replace(valid, "value: env:STRIPE", "value: env:STRIPE"+window, 1))
		if err != nil {
			t.Errorf("%s: %v, want a warning at most: a window ends while processes run", says, err)
			continue
		}
		if says == "" && len(cfg.Warnings) == 0 {
			continue
		}
		if len(cfg.Warnings) != 1 || says == "" || cfg.Warnings[0].Key != "sources.stripe.secrets" || !strings.Contains(cfg.Warnings[0].Problem, says) {
			t.Errorf("warnings %v, want %q", cfg.Warnings, says)
		}
	}
}

// pawl serves plain HTTP, so an https URL implies a proxy. Behind an untrusted proxy, all senders have the same
// address.
func TestLoad_ProxyNotTrusted_Warning(t *testing.T) {
	t.Parallel()
	for ingress, want := range map[string]int{
		"{public_url: https://hooks.example.com}":                                          1,
		"{public_url: https://hooks.example.com, limits: {trusted_proxies: [10.0.0.0/8]}}": 0,
		"{public_url: http://127.0.0.1:8080}":                                              0,
		"{listen: 0.0.0.0:8080}":                                                           0,
	} {
		cfg, err := load(t, strings.Replace(valid, "sources:\n", "ingress: "+ingress+"\nsources:\n", 1))
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Warnings) != want || want == 1 && cfg.Warnings[0].Key != "ingress.limits.trusted_proxies" {
			t.Errorf("%s: warnings %v, want %d", ingress, cfg.Warnings, want)
		}
	}
}

// The sources of a generic provider are different senders, so only these sources must not share a secret.
func TestLoad_SecretOfTwoSenders_Warning(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]int{"hmac": 1, "github": 0} {
		source := "{provider: " + provider + ", mode: live, secrets: [{value: env:STRIPE}]}"
		cfg, err := load(t, strings.Replace(valid, "sources:\n", "sources:\n  here: "+source+"\n  there: "+source+"\n", 1))
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Warnings) != want || want == 1 && cfg.Warnings[0].Key != "sources.there.secrets[0].value" {
			t.Errorf("%s: warnings %v, want %d", provider, cfg.Warnings, want)
		}
		if strings.Contains(fmt.Sprint(cfg.Warnings), longSecret) {
			t.Errorf("%s: the warning holds the secret", provider)
		}
	}
}

func TestLoad_SecretFileOthersMayRead_Warning(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		dir := t.TempDir()
		secret := filepath.Join(dir, "stripe.secret")
		if err := os.WriteFile(secret, []byte(longSecret+"\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(secret, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
		path := filepath.Join(dir, "pawl.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(valid, "env:STRIPE", "file:stripe.secret", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path, environment, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Warnings) != want {
			t.Errorf("mode %o: warnings = %v, want %d", mode, cfg.Warnings, want)
		}
		if got := cfg.Sources["stripe"].Secrets[0].Value.Value(); got != longSecret {
			t.Errorf("mode %o: the secret was not read as it stands without its newline", mode)
		}
	}
}

// A file that is endless, or that blocks until another process writes, cannot contain a secret: pawl rejects it
// without reading it.
func TestLoad_SecretFileThatIsNone_Refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{"fifo": "not a regular file", "/dev/zero": "not a regular file", ".": "not a regular file", "large": "larger than"} {
		path := filepath.Join(dir, "pawl.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(valid, "env:STRIPE", "file:"+name, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(path, environment, nil)
		var faults config.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Key != "sources.stripe.secrets[0].value" || !strings.Contains(faults[0].Problem, says) {
			t.Errorf("%s: %v; want a fault of the secret that says %q", name, err, says)
		}
	}
}

func TestLoad_ByteOrderMark_Dropped(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("\ufeff"+longSecret+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := load(t, "\ufeff"+strings.TrimSpace(strings.ReplaceAll(strings.Replace(valid, "env:STRIPE", "file:"+secret, 1), "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Sources["stripe"].Secrets[0].Value.Value(); got != longSecret {
		t.Errorf("secret %q, want %q", got, longSecret)
	}
}

func TestLoad_NotYAML_OneFaultWithoutTheSource(t *testing.T) {
	t.Parallel()
	_, err := load(t, "sources:\n  stripe: [whsec_hidden\nx: y: z\n")
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 1 {
		t.Fatalf("err = %v, want one fault", err)
	}
	if !strings.HasPrefix(err.Error(), "line ") {
		t.Errorf("the error does not begin with the line: %v", err)
	}
	if strings.Contains(err.Error(), "whsec_hidden") {
		t.Errorf("the error shows the source: %v", err)
	}
}

func TestRef_AnyVerb_HidesValue(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, valid)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ref", cfg.Database)
	for _, got := range []string{fmt.Sprintf("%v %+v %#v %s", cfg, *cfg, *cfg, cfg.Database), log.String()} {
		if strings.Contains(got, "pw@localhost") || strings.Contains(got, longSecret) {
			t.Errorf("a secret was printed: %s", got)
		}
	}
}

func TestDev_LoadAccepts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"pawl.yaml": string(template.Dev(template.DevParams{
			Ingress: "127.0.0.1:8080", Console: "127.0.0.1:8081", Ops: "127.0.0.1:8082", WorkerOps: "127.0.0.1:0",
			WorkspacesURL: "http://127.0.0.1:9001", FinanceURL: "http://127.0.0.1:9002",
			SMTP: "127.0.0.1:9003", EventsURL: "http://127.0.0.1:9004/events", RelayedURL: "http://127.0.0.1:9004/relayed", Relayed: "github, shopify", StripeAPI: "http://127.0.0.1:9005/stripe",
			Sources: []template.DevSource{{Name: "github", Provider: "github", Mode: webhook.Test}, {Name: "shopify", Provider: "shopify", Mode: webhook.Live}},
		})),
		"database.url":        dsn,
		"secrets/stripe":      longSecret,
		"secrets/stripe-api":  "rk_dev",
		"secrets/github":      longSecret,
		"secrets/shopify":     longSecret,
		"secrets/destination": "whsec_" + base64.StdEncoding.EncodeToString([]byte(longSecret)),
		"temporal.toml":       "[profile.default]\naddress = \"127.0.0.1:7233\"\nnamespace = \"pawl\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "pawl.yaml"), environment, known)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.Dev.Enabled || cfg.Sources["stripe"].Mode != "" || len(cfg.Warnings) != 0 {
		t.Errorf("dev %v, mode %q, warnings %v; want dev, both modes, no warnings", cfg.Dev.Enabled, cfg.Sources["stripe"].Mode, cfg.Warnings)
	}
	if cfg.Email.Delay > time.Second {
		t.Errorf("e-mails wait %s, want no longer than a moment", cfg.Email.Delay)
	}
	if got, want := cfg.Sources["stripe"].URL, "http://127.0.0.1:8080/hooks/stripe"; got != want {
		t.Errorf("source URL = %q, want %q", got, want)
	}
	for name, mode := range map[string]webhook.Mode{"github": webhook.Test, "shopify": webhook.Live} {
		if got := cfg.Sources[name]; got.Mode != mode || !slices.Equal(cfg.DestinationsOf(name), []string{"relayed"}) {
			t.Errorf("source %s: mode %q, relayed to %q; want %s, to the sandbox", name, got.Mode, cfg.DestinationsOf(name), mode)
		}
	}
	opts, err := cfg.Temporal.ClientOptions()
	if err != nil {
		t.Fatal(err)
	}
	if opts.HostPort != "127.0.0.1:7233" || opts.Namespace != "pawl" {
		t.Errorf("temporal = %s/%s, want what temporal.toml says", opts.HostPort, opts.Namespace)
	}
}

func TestBytes_Text(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Bytes{"1MiB": 1 << 20, "512KiB": 512 << 10, "1048576": 1 << 20, "2 MB": 2e6, "64B": 64} {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1TiB", "1.5MiB", "9999999999GiB"} {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q = %d, want a refusal", text, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(valid)
	f.Add("a: &x [1]\nb: *x\n<<: *x\n")
	f.Add("- - -\n")
	path := filepath.Join(f.TempDir(), "pawl.yaml")
	f.Fuzz(func(t *testing.T, yaml string) {
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path, environment, known)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("config %v with error %v", cfg, err)
		}
	})
}

func TestLoad_KeysThatStandTwice_BesideAllElse(t *testing.T) {
	t.Parallel()
	_, err := load(t, "dev: {enabled: true}\nsources:\n  stripe: {provider: nope}\n  stripe: {provider: stripe}\ndev: {enabled: false}\nbogus: 1\n")
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Load() = %v, want faults", err)
	}
	for _, want := range []string{"sources.stripe (line 4): is already set on line 3", "dev (line 5): is already set on line 1", "bogus (line 6): ", "sources.stripe.provider (line 3): "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("faults\n%v\nwithout %q", err, want)
		}
	}
}

// Values that are derived from a wrong value are not in the file, so they are not reported as errors.
func TestLoad_DefaultMadeOfAWrongValue_ToldOnce(t *testing.T) {
	t.Parallel()
	for key, wrong := range map[string]string{
		"ingress.public_url":                   "ingress: {public_url: \"ftp://x\"}\n",
		"ingress.limits.per_source.per_second": "ingress: {limits: {per_source: {per_second: -1}}}\n",
	} {
		_, err := load(t, valid+wrong)
		var faults config.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Key != key {
			t.Errorf("faults %v, want one of %s", err, key)
		}
	}
}
