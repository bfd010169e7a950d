package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Subscriber receives internal events as CloudEvents.
type Subscriber struct {
	Name  string `yaml:"name"`
	URL   string `yaml:"url" form:"url"`
	Token Ref    `yaml:"token"`
	// Timeout bounds one request.
	Timeout time.Duration `yaml:"timeout" default:"10s" min:"0s"`
	// Types selects internal events. Empty means all types.
	Types []string `yaml:"types" repeats:"true"`
}

// internalEvents maps the nouns of internal events to their verbs. The verbs of a dispute are Stripe's statuses.
// docs/sinks.openapi.yaml describes them.
var internalEvents = map[string][]string{
	"access":       {"changed", "snapshot"},
	"checkout":     {"completed"},
	"dispute":      nil,
	"invoice":      {"paid", "closed"},
	"payment":      {"failed"},
	"refund":       {"succeeded", "failed"},
	"subscription": {"changed", "ended"},
	"task":         {"opened", "closed", "due_soon"},
}

func (s *Sinks) check(c *checker, _ string) {
	names := map[string]bool{}
	for i, subscriber := range s.Subscribers {
		if name := subscriber.Name; name == "" || names[name] {
			c.bad(fmt.Sprintf("sinks.subscribers[%d].name", i), "is missing or used twice",
				"give each subscriber a unique name: its deliveries are recorded under it")
		}
		names[subscriber.Name] = true
	}
}

func (s *Subscriber) check(c *checker, key string) {
	c.needed(key+".url", s.URL)
	c.inClear(key, s.URL, s.Token)
	for i, t := range s.Types {
		noun, verb, _ := strings.Cut(t, ".")
		verbs, known := internalEvents[noun]
		if !known || verb == "" || verb != "*" && verbs != nil && !slices.Contains(verbs, verb) {
			c.bad(fmt.Sprintf("%s.types[%d]", key, i), fmt.Sprintf("%q is not an internal event", t), "write a type of docs/effects.md, such as access.changed, or a prefix such as invoice.*")
		}
	}
}
