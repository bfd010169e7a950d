package config_test

import (
	"slices"
	"strings"
	"testing"
)

// What others on the way could read or forge is told, once each; what stays on this machine, or is encrypted, is not.
func TestLoad_Exposed_Warned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		yaml, dsn string
		want      string // the keys, "" for none
	}{
		"a token in clear":           {yaml: "sinks: {finance: {url: 'http://f.example.com', token: env:STRIPE}}", want: "sinks.finance.token"},
		"to this machine":            {yaml: "sinks: {finance: {url: 'http://127.0.0.1:1', token: env:STRIPE}}"},
		"encrypted":                  {yaml: "sinks: {finance: {url: 'https://f.example.com', token: env:STRIPE}}"},
		"of one mode":                {yaml: "sinks: {finance: {live: {url: 'http://f.example.com', token: env:STRIPE}}}", want: "sinks.finance.live.token"},
		"a subscriber's":             {yaml: "sinks: {subscribers: [{name: a, url: 'http://s.example.com', token: env:STRIPE}]}", want: "sinks.subscribers[0].token"},
		"a password in a URL":        {yaml: "sinks: {workspaces: {url: 'https://ann:hush@w.example.com'}}", want: "sinks.workspaces.url"},
		"every proxy":                {yaml: "ingress: {limits: {trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]}}", want: "ingress.limits.trusted_proxies[1]"},
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

// only is a configuration of one source and more.
func only(more string) string {
	return "sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE}]}}\n" + more + "\n"
}
