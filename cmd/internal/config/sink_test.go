package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// faultsOf loads a wrong configuration, and returns the reported error of each key.
func faultsOf(t *testing.T, yaml string) map[string]string {
	t.Helper()
	_, err := load(t, yaml)
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("err = %v, want faults", err)
	}
	told := map[string]string{}
	for _, f := range faults {
		told[f.Key] += f.String() + "\n"
		if f.Fix == "" {
			t.Errorf("no fix: %v", f)
		}
	}
	return told
}

// wantFaults checks that exactly these errors are reported.
func wantFaults(t *testing.T, told map[string]string, want map[string]string) {
	t.Helper()
	for key, says := range want {
		if !strings.Contains(told[key], says) {
			t.Errorf("%s: told %q, want %q", key, told[key], says)
		}
		delete(told, key)
	}
	for key, text := range told {
		t.Errorf("%s: told %q, want nothing", key, text)
	}
}

const noSinks = `
database: env:DSN
sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE}]}}
`

func TestLoad_NoSinkConfigured_NoneIsRequired(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, noSinks)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(cfg.Sinks["workspaces"].Modes()) + len(cfg.Sinks["finance"].Modes()) + len(cfg.Sinks["email"].Modes()); got != 0 {
		t.Errorf("%d modes have a sink, want none", got)
	}
}

// Every sink without an address is reported for each mode in which billing events arrive, and for no other mode.
func TestUnconfiguredSinks_ModesThatArrive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ yaml, want string }{
		"none":          {noSinks, "workspaces[live] finance[live] email[live]"},
		"both modes":    {strings.Replace(noSinks, "sources: {", "sources: {stripe-test: {provider: stripe, mode: test, secrets: [{value: env:STRIPE}]}, ", 1), "workspaces[live test] finance[live test] email[live test]"},
		"one is set":    {noSinks + "sinks: {finance: {url: \"https://finance.test\"}}\n", "workspaces[live] email[live]"},
		"only for test": {noSinks + "sinks: {finance: {test: {url: \"https://finance.test\"}}}\n", "workspaces[live] finance[live] email[live]"},
		"no billing":    {strings.ReplaceAll(noSinks, "provider: stripe, mode: live", "provider: github"), ""},
	} {
		cfg, err := load(t, tt.yaml)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range cfg.UnconfiguredSinks() {
			got = append(got, s.Name+fmt.Sprint(s.Modes))
			if s.Key != "sinks."+s.Name {
				t.Errorf("%s: %s has the key %s", name, s.Name, s.Key)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
}

func TestLoad_SinkPerMode(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, noSinks+`
sinks:
  workspaces: {url: "https://w.example.com/", owner: "platform@example.com"}
  finance: {live: {url: "https://f.example.com"}, test: {url: "https://f.example.com/staging/", token: env:SHORT}, timeout: 3s}
  email: {test: {address: "box.test:25", from: a@b.test, tls: none}}
`)
	if err != nil {
		t.Fatal(err)
	}
	w := cfg.Sinks["workspaces"]
	if got := w.Modes(); len(got) != 2 || got["live"].URL != "https://w.example.com" || got["test"] != got["live"] || w.Owner != "platform@example.com" {
		t.Errorf("workspaces %+v, want one endpoint for both modes", got)
	}
	f := cfg.Sinks["finance"].Modes()
	if len(f) != 2 || f["live"].URL != "https://f.example.com" || f["live"].Token.Value() != "" ||
		f["test"].URL != "https://f.example.com/staging" || f["test"].Token.Value() != "short" {
		t.Errorf("finance %+v, want an endpoint for each mode", f)
	}
	if got := cfg.Sinks["email"].Modes(); len(got) != 1 || got["test"].Address != "box.test:25" || got["test"].TLS != "none" {
		t.Errorf("email %+v, want a server for test mode alone", got)
	}
}

func TestLoad_SinkPerMode_Faults(t *testing.T) {
	t.Parallel()
	wantFaults(t, faultsOf(t, noSinks+`
sinks:
  workspaces: {url: "https://w.example.com", test: {url: "ftp://x"}}
  finance: {live: {token: env:NOT_SET}, timeout: -1s}
  email: {live: {address: "smtp.test:587"}}
`), map[string]string{
		"sinks.workspaces.test":     "move url, token into live and test",
		"sinks.workspaces.test.url": "https://host/path",
		"sinks.finance.live.url":    "is missing",
		"sinks.finance.live.token":  "NOT_SET is not set",
		"sinks.finance.timeout":     "negative",
		"sinks.email.live.from":     "is missing",
	})
}

func TestLoad_Refusals(t *testing.T) {
	t.Parallel()
	for refusals, want := range map[string][]config.Refusal{
		"": {{Status: 402}, {Status: 422}, {Status: 451}},
		"refusals: [422, {status: 403, code: not_entitled}]": {{Status: 422}, {Status: 403, Code: "not_entitled"}},
		"refusals: []": {},
	} {
		cfg, err := load(t, noSinks+"sinks: {workspaces: {url: 'https://w.example.com', "+refusals+"}}\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Sinks["workspaces"].Refusals; !slices.Equal(got, want) {
			t.Errorf("%q: refusals %v, want %v", refusals, got, want)
		}
	}
	wantFaults(t, faultsOf(t, noSinks+"sinks: {finance: {url: 'https://f.example.com', refusals: [401, 409, 500, no, {status: 404}, {status: 404, code: gone}, {state: 1}]}}\n"), map[string]string{
		"sinks.finance.refusals[0]":       "expired token",
		"sinks.finance.refusals[1]":       "is retried",
		"sinks.finance.refusals[2]":       "400 to 499",
		"sinks.finance.refusals[3]":       "write a status",
		"sinks.finance.refusals[4]":       "{status: 404, code: not_entitled}",
		"sinks.finance.refusals[6]":       "400 to 499",
		"sinks.finance.refusals[6].state": "did you mean \"status\"?",
	})
}

func TestLoad_Accounts(t *testing.T) {
	t.Parallel()
	for accounts, want := range map[string]config.Accounts{
		"[acct_9, acct_10]":                 {Routed: []string{"acct_9", "acct_10"}},
		"{table: true}":                     {Ours: map[string]string{}, Table: true},
		"{table: false, acct_9: acme}":      {Ours: map[string]string{"acct_9": "acme"}},
		"{acct_9: acme, acct_10: umbrella}": {Ours: map[string]string{"acct_9": "acme", "acct_10": "umbrella"}},
	} {
		cfg, err := load(t, strings.Replace(noSinks, "mode: live", "mode: live, accounts: "+accounts, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Sources["stripe"].Accounts; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", accounts, got, want)
		}
	}
	for accounts, want := range map[string]map[string]string{
		"[acct_9, acct_9]":                 {"sources.stripe.accounts[1]": "is listed twice"},
		"acct_9":                           {"sources.stripe.accounts": "is not a mapping"},
		"{table: acme}":                    {"sources.stripe.accounts.table": "neither true nor false"},
		`{acct_9: "", a: "..", b: "x\ny"}`: {"sources.stripe.accounts.acct_9": "no account", "sources.stripe.accounts.a": "is not a valid account ID", "sources.stripe.accounts.b": "is not a valid account ID"},
	} {
		wantFaults(t, faultsOf(t, strings.Replace(noSinks, "mode: live", "mode: live, accounts: "+accounts, 1)), want)
	}
}

// The header of a relay must be a valid header name, and not a header that every e-mail has.
func TestLoad_KeyHeader_AHeaderOfTheRelay(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"Resend-Idempotency-Key": true, "X-EE-Idempotency-Key": true,
		"message-id": false, "Bcc": false, "A: b": false, "Schlüssel": false,
	} {
		_, err := load(t, "sinks: {email: {address: 'mail.test:587', from: billing@pawl.test, key_header: '"+header+"'}}")
		if refused := err != nil && strings.Contains(err.Error(), "sinks.email.key_header"); refused == want {
			t.Errorf("%q: refused is %t, %v", header, refused, err)
		}
	}
}
