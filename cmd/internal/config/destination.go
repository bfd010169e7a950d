package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Destination is an HTTP endpoint of yours. It receives the events of Sources as the provider sent them, and the
// events of pawl that Events selects as CloudEvents.
type Destination struct {
	URL string `yaml:"url" form:"url"`
	// Token, if set, is sent as a bearer token.
	Token Ref `yaml:"token"`
	// Secrets sign the requests as Standard Webhooks; each secret adds a signature. A secret is "whsec_" followed by
	// base64, as in the specification.
	Secrets []SigningSecret `yaml:"secrets"`
	// Sources are names of sources. The destination receives their events in addition to the flow of a type.
	Sources []string `yaml:"sources"`
	// Types selects the events of Sources: a type, or a prefix such as "orders/*". If it is empty, all types are
	// selected. When is a condition on these events, and Condition the compiled condition.
	Types     []string        `yaml:"types"`
	When      string          `yaml:"when"`
	Condition *flow.Condition `yaml:"-"`
	// Events selects pawl's own events: a type, a prefix such as "billing.*", or "*".
	Events  []string `yaml:"events"`
	Sending `yaml:",inline"`
}

// SigningSecret is one of a destination's secrets.
type SigningSecret struct {
	Value Ref `yaml:"value"`
}

// DestinationPrefix is the prefix of a destination's name among the targets.
const DestinationPrefix = "destinations:"

// If parsing fails, it returns the problem and its fix. The type of a dispute ends with a status of Stripe.
// docs/sinks.openapi.yaml describes them.
var pawlEvents = []string{
	"access.changed", "access.snapshot",
	"billing.checkout.completed", disputeEvents + "*", "billing.invoice.closed", "billing.invoice.paid",
	"billing.payment.failed", "billing.refund.failed", "billing.refund.succeeded",
	"billing.subscription.changed", "billing.subscription.ended",
	"task.closed", "task.due_soon", "task.opened",
}

const disputeEvents = "billing.dispute."

// isPawlEvent reports whether a type, a prefix such as "billing.*", or "*" selects events of pawl.
func isPawlEvent(selected string) bool {
	prefix, all := strings.CutSuffix(selected, "*")
	if all {
		return prefix == "" || strings.HasSuffix(prefix, ".") && slices.ContainsFunc(pawlEvents,
			func(t string) bool { return strings.HasPrefix(t, prefix) })
	}
	status, dispute := strings.CutPrefix(selected, disputeEvents)
	return dispute && status != "" || slices.Contains(pawlEvents, selected)
}

// DestinationsOf returns the names of the destinations that receive the events of a source.
func (c *Config) DestinationsOf(source string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		if slices.Contains(c.Destinations[name].Sources, source) {
			names = append(names, name)
		}
	}
	return names
}

// Keys returns the decoded secrets.
func (d Destination) Keys() [][]byte {
	keys := make([][]byte, len(d.Secrets))
	for i, secret := range d.Secrets {
		keys[i] = decoded(secret.Value)
	}
	return keys
}

func (d Destination) target(name string) Target {
	credentials := "no secret and no token is set"
	switch {
	case len(d.Secrets) > 0:
		credentials = "its secrets are set"
	case d.Token.Value() != "":
		credentials = "its token is set"
	}
	return Target{
		Name: DestinationPrefix + name, Key: "destinations." + name, Sending: d.Sending, Destination: &d,
		Credentials: map[string]string{string(webhook.Live): credentials, string(webhook.Test): credentials},
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

func (d *Destination) check(c *checker, key string) {
	if !sourceName.MatchString(strings.TrimPrefix(key, "destinations.")) {
		c.bad(key, "is not a valid destination name",
			"use lower-case letters, digits, - and _: it is part of ledger keys")
	}
	d.Retries.check(c, key, 0)
	c.needed(key+".url", d.URL)
	c.inClear(key, d.URL, d.Token)
	if len(d.Sources) == 0 && len(d.Events) == 0 {
		c.bad(key, "receives no events",
			`write sources: [NAME] for the events of a source, or events: ["*"] for pawl's own events`)
	}
	if len(d.Sources) > 0 && len(d.Secrets) == 0 {
		c.bad(key+".secrets", "is missing: pawl signs the events of sources", "add one: secrets: [{value: env:NAME}]")
	}
	for i, source := range d.Sources {
		if _, known := c.cfg.Sources[source]; !known {
			c.bad(fmt.Sprintf("%s.sources[%d]", key, i), fmt.Sprintf("%q is not a source", source),
				"add it under sources, or correct the name")
		}
	}
	d.checkSelection(c, key)
	for i, t := range d.Events {
		if !isPawlEvent(t) {
			c.bad(fmt.Sprintf("%s.events[%d]", key, i), fmt.Sprintf("%q is not an event of pawl", t),
				`write a type of docs/effects.md, such as access.changed, a prefix such as billing.*, or "*"`)
		}
	}
}

// checkSelection checks the selection of the events of sources, and compiles its condition.
func (d *Destination) checkSelection(c *checker, key string) {
	for _, name := range []string{"types", "when"} {
		if c.isSet(key+"."+name) && len(d.Sources) == 0 {
			c.bad(key+"."+name, "selects events of sources, and the destination has no sources",
				"write sources: [NAME], or remove it; events selects pawl's own events")
		}
	}
	for i, t := range d.Types {
		at := fmt.Sprintf("%s.types[%d]", key, i)
		if strings.Contains(strings.TrimSuffix(t, "*"), "*") {
			c.badAt(at, fmt.Sprintf("%q has a * that is not at its end", t),
				"write a type, or a prefix such as orders/*")
		} else if ignored := c.cfg.ignoredBy(d.Sources, t); ignored != "" {
			c.badAt(at, fmt.Sprintf("%s does not contain %q", ignored, t),
				"add it there: the source ignores other types")
		}
	}
	if d.When != "" {
		var faults []flow.Fault
		d.Condition, faults = flow.CompileCondition(key+".when", d.When)
		c.uncompiled("", faults)
	}
}

// ignoredBy returns the keys of the lists of events that exclude a type or a prefix. It returns "" if a source accepts
// it. A list of Stripe's types may contain the type of a thin event, or the type of its snapshot event.
func (c *Config) ignoredBy(sources []string, selected string) string {
	snapshot := func(t string) string { return strings.TrimPrefix(t, "v1.") }
	var lists []string
	for _, name := range sources {
		events := c.Sources[name].Events
		if len(events) == 0 || slices.ContainsFunc(events, func(t string) bool {
			return flow.Matches([]string{snapshot(selected)}, snapshot(t))
		}) {
			return ""
		}
		lists = append(lists, "sources."+name+".events")
	}
	return strings.Join(lists, " and ")
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
