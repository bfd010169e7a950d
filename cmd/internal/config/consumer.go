package config

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Consumer is an HTTP endpoint for relayed events, which are signed as Standard Webhooks.
type Consumer struct {
	URL string `yaml:"url" form:"url"`
	// Secrets sign the deliveries; each secret adds a signature. A secret is "whsec_" followed by base64, as in the
	// specification.
	Secrets []SigningSecret `yaml:"secrets"`
	Sending `yaml:",inline"`
}

// SigningSecret is one of a consumer's secrets.
type SigningSecret struct {
	Value Ref `yaml:"value"`
}

// Keys returns the decoded secrets.
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

// decoded returns the key of a secret. It returns nil if the secret cannot be decoded, which Load rejects.
func decoded(secret Ref) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Value(), "whsec_"))
	if err != nil {
		return nil
	}
	return key
}

func (c *Consumer) check(to *checker, key string) {
	if !sourceName.MatchString(strings.TrimPrefix(key, "consumers.")) {
		to.bad(key, "is not a valid consumer name",
			"use lower-case letters, digits, - and _: it is part of ledger keys")
	}
	c.Retries.check(to, key, 0)
	to.needed(key+".url", c.URL)
	to.inClear(key, c.URL, Ref{})
	if len(c.Secrets) == 0 {
		to.bad(key+".secrets", "is missing", "add one: secrets: [{value: env:NAME}]")
	}
}

func (s *SigningSecret) check(c *checker, key string) {
	key += ".value"
	if s.Value.from == "" {
		c.bad(key, "is missing", fixRef)
		return
	}
	if s.Value.Value() != "" && len(decoded(s.Value)) < webhook.MinSecret {
		c.bad(key, fmt.Sprintf("is not whsec_ followed by the base64 of at least %d bytes", webhook.MinSecret),
			"make one with: echo whsec_$(openssl rand -base64 32)")
	}
	c.standIn(key, decoded(s.Value))
	c.standIn(key, []byte(s.Value.Value()))
}
