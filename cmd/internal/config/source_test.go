package config_test

import (
	"strings"
	"testing"
)

func TestLoad_APIKey_Faults(t *testing.T) {
	t.Parallel()
	environment := func(name string) (string, bool) {
		key, ok := map[string]string{
			"DSN": dsn, "STRIPE": longSecret, "LIVE": "rk_live_0123456789", "TEST": "rk_test_0123456789", "SECRET": "sk_live_0123456789", "WHSEC": "whsec_0123456789",
		}[name]
		return key, ok
	}
	for name, tt := range map[string]struct{ provider, keys, fault, warning string }{
		"as it should be":     {"stripe", "api_key: env:LIVE, api_rate_limit: 5", "", ""},
		"a secret key":        {"stripe", "api_key: env:SECRET", "", "with all permissions"},
		"of the other mode":   {"stripe", "api_key: env:TEST", "of the other mode", ""},
		"a signing secret":    {"stripe", "api_key: env:WHSEC", "not a key of Stripe's API", ""},
		"none there":          {"stripe", "api_key: env:NONE", "NONE is not set", ""},
		"in the file":         {"stripe", "api_key: rk_live_0123456789", "must not be written into this file", ""},
		"another provider's":  {"github", "api_key: env:LIVE", "is only for sources of provider stripe", ""},
		"a URL and no key":    {"stripe", "api_url: \"http://127.0.0.1:1\"", "has no effect without api_key", ""},
		"no URL":              {"stripe", "api_key: env:LIVE, api_url: stripe", "not an http or https URL", ""},
		"more than they take": {"stripe", "api_key: env:LIVE, api_rate_limit: 1000", "not between 1 and 100", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := loadWith(t, "database: env:DSN\nsources: {a: {provider: "+tt.provider+", mode: live, secrets: [{value: env:STRIPE}], "+tt.keys+"}}\n", environment)
			switch {
			case tt.fault == "" && err != nil:
				t.Fatal(err)
			case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault) || strings.Contains(err.Error(), "0123456789")):
				t.Fatalf("err = %v, want %q and no key", err, tt.fault)
			case tt.fault != "":
				return
			}
			warned := cfg.Warnings.Error()
			if len(cfg.Warnings) == 0 && tt.warning != "" || !strings.Contains(warned, tt.warning) || len(cfg.Warnings) > 0 && tt.warning == "" {
				t.Errorf("warnings %v, want %q", cfg.Warnings, tt.warning)
			}
			if cfg.Sources["a"].APIKey.Value() == "" {
				t.Error("the key is not resolved")
			}
		})
	}
}
