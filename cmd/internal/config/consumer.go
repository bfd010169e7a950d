package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Consumer is an HTTP endpoint that gets relayed events, signed as Standard Webhooks.
type Consumer struct {
	URL string `yaml:"url" form:"url"`
	// Secrets are what deliveries are signed with, each of them: "whsec_" and base64, as the specification writes it.
	Secrets []SigningSecret `yaml:"secrets"`
	Sending `yaml:",inline"`
}

// SigningSecret is one of a consumer's secrets.
type SigningSecret struct {
	Value Ref `yaml:"value"`
}

// Keys returns the secrets as decoded.
func (c Consumer) Keys() [][]byte {
	keys := make([][]byte, len(c.Secrets))
	for i, secret := range c.Secrets {
		keys[i] = decoded(secret.Value)
	}
	return keys
}

func (c Consumer) sink(name string) Sink {
	both := "its secrets are set"
	return Sink{
		Name: "consumers:" + name, Key: "consumers." + name, Sending: c.Sending,
		Credentials: map[string]string{string(webhook.Live): both, string(webhook.Test): both}, Consumer: &c,
	}
}

// decoded returns a secret's key; nil where it cannot be decoded, which Load refuses.
func decoded(secret Ref) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Value(), "whsec_"))
	if err != nil {
		return nil
	}
	return key
}

func (c *checker) consumers() {
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Consumers)) {
		consumer, key := c.cfg.Consumers[name], "consumers."+name
		if !sourceName.MatchString(name) {
			c.bad(key, "is no consumer name", "use lower-case letters, digits, - and _: it is part of ledger keys")
		}
		c.needed(key+".url", consumer.URL)
		if len(consumer.Secrets) == 0 {
			c.bad(key+".secrets", "is missing", "add one: secrets: [{value: env:NAME}]")
		}
		for i := range consumer.Secrets {
			secret, at := &consumer.Secrets[i].Value, fmt.Sprintf("%s.secrets[%d].value", key, i)
			if secret.from == "" {
				c.bad(at, "is missing", fixRef)
				continue
			}
			c.resolve(secret, at)
			if secret.Value() != "" && len(decoded(*secret)) < webhook.MinSecret {
				c.bad(at, fmt.Sprintf("is not whsec_ and the base64 of at least %d bytes", webhook.MinSecret),
					"make one with: echo whsec_$(openssl rand -base64 32)")
			}
			c.standIn(at, decoded(*secret))
			c.standIn(at, []byte(secret.Value()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Sources)) {
		key, relay := "sources."+name+".relay", c.cfg.Sources[name].Relay
		c.noDuplicates(key, relay)
		for i, consumer := range relay {
			if _, ok := c.cfg.Consumers[consumer]; !ok {
				c.bad(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%q is no consumer", consumer),
					"add it under consumers, or correct the name")
			}
		}
	}
}
