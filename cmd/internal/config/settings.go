package config

import (
	"maps"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Settings returns what the provider of the source named name needs to build its verifier.
func (c *Config) Settings(name string) webhook.Settings {
	s := c.Sources[name]
	set := webhook.Settings{Source: name, Mode: s.Mode, URL: s.URL, Tolerance: s.Tolerance, Options: s.Options}
	for _, secret := range s.Secrets {
		set.Secrets = append(set.Secrets, webhook.Secret{
			Label: secret.Label, Value: secret.Value.Value(),
			NotBefore: secret.NotBefore, NotAfter: secret.NotAfter,
		})
	}
	if c.Dev {
		set.Options = maps.Clone(set.Options)
		if set.Options == nil {
			set.Options = map[string]string{}
		}
		set.Options[webhook.AllowShortSecrets] = "true"
	}
	return set
}
