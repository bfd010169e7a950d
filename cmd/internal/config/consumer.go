package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Consumer is an HTTP endpoint that gets relayed events, signed as Standard Webhooks.
type Consumer struct {
	URL string `yaml:"url"`
	// Secret is what deliveries are signed with: "whsec_" and base64, as the specification writes it.
	Secret Ref `yaml:"secret"`
	// Timeout bounds one delivery; default 10s.
	Timeout time.Duration `yaml:"timeout"`
	// Effects is "local" (try as a local activity first; default) or "activity".
	Effects string `yaml:"effects"`
}

// Key returns the decoded secret; nil where it cannot be decoded, which Load refuses.
func (c Consumer) Key() []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(c.Secret.Value(), "whsec_"))
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
		c.neededURL(key+".url", consumer.URL, true)
		c.positive(key+".timeout", consumer.Timeout)
		c.oneOf(key+".effects", consumer.Effects, "local", "activity")
		if consumer.Secret.from == "" {
			c.bad(key+".secret", "is missing", fixRef)
		} else {
			c.resolve(&consumer.Secret, key+".secret")
			if n := len(consumer.Key()); consumer.Secret.Value() != "" && n < webhook.MinSecret {
				c.bad(key+".secret", fmt.Sprintf("is not whsec_ and the base64 of at least %d bytes", webhook.MinSecret), "make one with: echo whsec_$(openssl rand -base64 32)")
			}
			c.cfg.Consumers[name] = consumer
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Sources)) {
		key, relay := "sources."+name+".relay", c.cfg.Sources[name].Relay
		c.noDuplicates(key, relay)
		for i, consumer := range relay {
			if _, ok := c.cfg.Consumers[consumer]; !ok {
				c.bad(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%q is no consumer", consumer), "add it under consumers, or correct the name")
			}
		}
	}
}
