package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Each connection that others in the network could read or forge causes one warning. A connection that stays on this
// machine or is encrypted causes none.
func TestLoad_Exposed_Warned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		yaml, dsn string
		want      string // keys of the warnings; "" for none
	}{
		"two people, one way in":     {yaml: "policy: {four_eyes: true}\nconsole: {users: people}"},
		"two people, two ways in":    {yaml: "policy: {four_eyes: true}\nconsole: {users: people, proxy: {header: X-User, from: [10.0.0.0/8]}, roles: {oncall: operator}}", want: "policy.four_eyes"},
		"two people, no way in":      {yaml: "policy: {four_eyes: true}", want: "policy.four_eyes"},
		"a token in clear":           {yaml: "sinks: {finance: {url: 'http://f.example.com', token: env:STRIPE}}", want: "sinks.finance.token"},
		"to this machine":            {yaml: "sinks: {finance: {url: 'http://127.0.0.1:1', token: env:STRIPE}}"},
		"encrypted":                  {yaml: "sinks: {finance: {url: 'https://f.example.com', token: env:STRIPE}}"},
		"of one mode":                {yaml: "sinks: {finance: {live: {url: 'http://f.example.com', token: env:STRIPE}}}", want: "sinks.finance.live.token"},
		"a destination's":            {yaml: "destinations: {a: {url: 'http://s.example.com', events: ['*'], token: env:STRIPE}}", want: "destinations.a.token"},
		"a password in a URL":        {yaml: "sinks: {workspaces: {url: 'https://ann:hush@w.example.com'}}", want: "sinks.workspaces.url"},
		"every proxy":                {yaml: "ingress: {limits: {trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]}}", want: "ingress.limits.trusted_proxies[1]"},
		"every proxy, in halves":     {yaml: "ingress: {limits: {trusted_proxies: [0.0.0.0/1, '::/0', 'fc00::/7', 10.0.0.0/8]}}", want: "ingress.limits.trusted_proxies[0] ingress.limits.trusted_proxies[1]"},
		"every proxy of the console": {yaml: "console: {trusted_proxies: [0.0.0.0/0]}", want: "console.trusted_proxies[0]"},
		"no proxy of the console":    {yaml: "console: {url: 'https://pawl.example.com', users: users}", want: "console.trusted_proxies"},
		"a proxy of the console":     {yaml: "console: {url: 'https://pawl.example.com', users: users, trusted_proxies: [10.0.0.1]}"},
		"a link-local sink":          {yaml: "sinks: {finance: {url: 'http://169.254.169.254/x'}}", want: "sinks.finance.url"},
		"a link-local destination":   {yaml: "destinations: {a: {url: 'http://[fe80::1]/x', events: ['*']}}", want: "destinations.a.url"},
		"a placeholder for a token":  {yaml: "sinks: {finance: {url: 'https://f.example.com', token: env:PLACEHOLDER}}", want: "sinks.finance.token"},
		"an issuer on this machine":  {yaml: "console: {url: 'https://pawl.example.com', oidc: {issuer: 'http://127.0.0.1:1', client_id: pawl}, roles: {oncall: admin}}"},
		"mail in clear":              {yaml: "sinks: {email: {address: 'm.example.com:25', from: a@example.com, tls: none}}", want: "sinks.email.tls"},
		"mail to this machine":       {yaml: "sinks: {email: {address: 'localhost:25', from: a@example.com, tls: none}}"},
		"a database far away":        {dsn: "postgres://pawl:hush@db.example.com/pawl?sslmode=require", want: "database"},
		"in the other form":          {dsn: "host=db.example.com user=pawl password=hush", want: "database"},
		"whose certificate is known": {dsn: "postgres://pawl:hush@db.example.com/pawl?sslmode=verify-full"},
		"known, in the other form":   {dsn: "host=db.example.com sslmode=verify-full"},
		"on this machine":            {dsn: "postgres://pawl@localhost:5432/pawl"},
		"by a socket":                {dsn: "host=/run/postgresql user=pawl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := loadWith(t, only(tt.yaml), func(key string) (string, bool) {
				switch {
				case key == "PGSSLMODE":
					return "", false
				case key == "DATABASE_URL" && tt.dsn != "":
					return tt.dsn, true
				case key == "PLACEHOLDER":
					return "your-token-here", true
				}
				return environment(key)
			})
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, w := range cfg.Warnings {
				keys = append(keys, w.Key)
				if strings.Contains(w.String(), "hush") {
					t.Errorf("%s tells the secret", w)
				}
			}
			if !slices.Equal(keys, strings.Fields(tt.want)) {
				t.Errorf("warned of %q, want %q", keys, tt.want)
			}
		})
	}
}

// A setting that would let any sender sign in is rejected.
func TestLoad_AnySenderSignsIn_Refused(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"console: {url: 'https://pawl.example.com', oidc: {issuer: 'http://login.example.com', client_id: pawl}, roles: {oncall: admin}}": "console.oidc.issuer",
		"console: {proxy: {header: X-User, from: [0.0.0.0/0]}, roles: {oncall: admin}}":                                                   "console.proxy.from[0]",
		"console: {proxy: {header: X-User, from: [10.0.0.1]}, roles: {'': admin}}":                                                        "console.roles.",
		"console: {proxy: {header: X-User, from: [10.0.0.1]}, roles: {' ': admin}}":                                                       "console.roles. ",
	} {
		_, err := load(t, only(yaml))
		faults, _ := errors.AsType[config.Faults](err)
		if len(faults) != 1 || faults[0].Key != want {
			t.Errorf("%s: %v, want a fault of %s", yaml, err, want)
		}
	}
}

// only returns a configuration with one source and additional settings.
func only(more string) string {
	return "sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE}]}}\n" + more + "\n"
}
