package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// billing is the provider with billing events.
const billing = "stripe"

// sourceName matches names that can be used in /hooks/{source}, in metrics and in file names.
var sourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,62})$`)

// correlation matches "", a header name, or a JSON pointer (RFC 6901).
var correlation = regexp.MustCompile(`^([A-Za-z0-9-]{0,64}|(/[^/\s]+)+)$`)

func (s *Source) check(c *checker, key string) {
	name := strings.TrimPrefix(key, "sources.")
	if !sourceName.MatchString(name) {
		c.bad(key, "is not a valid source name",
			"use lower-case letters, digits, - and _: it is the last part of the URL")
	}
	if name == flow.Pawl {
		c.bad(key, "is the name of the events that pawl publishes", "choose another name")
	}
	provider, known := c.providers[s.Provider]
	switch {
	case s.Provider == "":
		c.bad(key+".provider", "is missing", "write one of "+strings.Join(slices.Sorted(maps.Keys(c.providers)), ", "))
	case len(c.providers) > 0 && !known:
		c.bad(key+".provider", fmt.Sprintf("%q is not a known provider", s.Provider), suggest(s.Provider, c.providers))
	}
	s.Contract = provider.Contract
	if s.Mode == "" && s.Provider == billing && !c.cfg.Dev.Enabled {
		c.bad(key+".mode", "is missing: events of test mode must not affect live customers",
			"write live or test, with one source per mode")
	}
	if _, ok := s.Options[webhook.AllowShortSecrets]; ok && !c.cfg.Dev.Enabled {
		c.bad(key+".options."+webhook.AllowShortSecrets, "is only for development",
			fmt.Sprintf("remove it, and use a secret of at least %d bytes", webhook.MinSecret))
	}
	if !correlation.MatchString(s.Correlation) {
		c.bad(key+".correlation", fmt.Sprintf("%q is neither a header nor a JSON pointer", s.Correlation),
			"write the header's name, or a pointer such as /data/object/metadata/order")
	}
	s.checkAccounts(c, key+".accounts")
	if known {
		c.options(key+".options", s.Options, provider)
	}
	if len(s.Secrets) == 0 && !provider.Contract.SecretOptional {
		c.bad(key+".secrets", "the source has no secret, so pawl cannot verify its deliveries",
			"add one: secrets: [{value: env:NAME}]")
	}
	c.secrets(key+".secrets", s.Secrets, cmp.Or(provider.Contract.MinSecret, webhook.MinSecret))
	s.checkAPI(c, key)
	if known && c.ask {
		c.provider(name, *s, provider)
	}
}

// keyRights lists the objects of Stripe's API that pawl reads.
var keyRights = []string{"customers", "subscriptions", "invoices", "charges", "refunds", "balance transactions",
	"disputes", "early fraud warnings", "credit notes", "checkout sessions", "events",
	"webhook endpoints", "event destinations"}

// KeyRights returns the read permissions that an api_key needs, as text. Messages, `pawl init` and the documentation
// use it.
func KeyRights() string {
	last := len(keyRights) - 1
	return strings.Join(keyRights[:last], ", ") + " and, for thin events, " + keyRights[last]
}

// checkAPI checks the provider's API key: a key of the other mode finds no objects, and a key with write permissions
// is more than pawl needs.
func (s *Source) checkAPI(c *checker, key string) {
	if s.Provider != billing && (s.APIKey.from != "" || s.APIURL != "") {
		c.bad(key+".api_key", "is only for sources of provider "+billing, "remove api_key and api_url")
		return
	}
	if s.APIKey.from == "" {
		if s.APIURL != "" {
			c.bad(key+".api_url", "has no effect without api_key", "add api_key, or remove it")
		}
		return
	}
	switch value := s.APIKey.Value(); {
	case value == "":
	case !strings.HasPrefix(value, "rk_") && !strings.HasPrefix(value, "sk_"):
		c.bad(key+".api_key", "is not a key of Stripe's API",
			"create a restricted key with read permission for "+KeyRights()+": rk_…")
	case s.Mode == webhook.Live && strings.HasPrefix(value[2:], "_test_"), s.Mode == webhook.Test &&
		strings.HasPrefix(value[2:], "_live_"):
		c.bad(key+".api_key", fmt.Sprintf("is a key of the other mode: the source has mode %s", s.Mode),
			"use a key of the same mode as the source")
	case strings.HasPrefix(value, "sk_"):
		c.warn(key+".api_key", "is a secret key with all permissions",
			"create a restricted key with read permissions: rk_…")
	}
}

// provider adds the faults that the source's provider detects. It leaves out settings that already have a fault, so
// that nothing is reported twice, and does not query the provider without a valid secret.
func (c *checker) provider(name string, s Source, p webhook.Provider) {
	key := "sources." + name
	if s.Mode == "" && p.Contract.Mode == "" {
		c.bad(key+".mode", fmt.Sprintf("is missing, and events of %s do not contain it", p.Name), "write live or test")
	}
	set := c.cfg.Settings(name)
	set.Options = maps.Clone(set.Options)
	maps.DeleteFunc(set.Options, func(option, _ string) bool { return !knows(p, option) })
	secrets := set.Secrets
	set.Secrets = nil
	for i, secret := range secrets {
		if !c.faulty(fmt.Sprintf("%s.secrets[%d]", key, i)) {
			set.Secrets = append(set.Secrets, secret)
		}
	}
	if c.faulty(key + ".tolerance") {
		set.Tolerance = 0
	}
	if len(set.Secrets) == 0 && (len(secrets) > 0 || !p.Contract.SecretOptional) {
		return
	}
	if _, err := p.New(set); err != nil {
		// Joined errors have one line each. The key already names the source.
		for line := range strings.Lines(err.Error()) {
			c.fault(key, c.lines[key], strings.TrimPrefix(strings.TrimSpace(line), "source "+name+": "), "")
		}
	}
}

// options reports options that p does not know, because a misspelt option would have no effect.
func (c *checker) options(key string, given map[string]string, p webhook.Provider) {
	fix := p.Name + " has no options: remove it"
	if len(p.Contract.Options) > 0 {
		fix = "write one of " + strings.Join(slices.Sorted(maps.Keys(p.Contract.Options)), ", ")
	}
	for name := range given {
		if !knows(p, name) {
			c.bad(key+"."+name, "is not an option of "+p.Name, fix)
		}
	}
}

func knows(p webhook.Provider, option string) bool {
	_, known := p.Contract.Options[option]
	return known || option == webhook.AllowShortSecrets
}

// faulty reports whether the setting at key, or a part of it, has a fault.
func (c *checker) faulty(key string) bool {
	return slices.ContainsFunc(c.faults,
		func(f Fault) bool { return f.Key == key || strings.HasPrefix(f.Key, key+".") })
}

func (c *checker) secrets(key string, secrets []Secret, least int) {
	labels := map[string]int{}
	for i := range secrets {
		s, at := &secrets[i], fmt.Sprintf("%s[%d]", key, i)
		if first, ok := labels[s.Label]; ok {
			c.bad(at+".label", fmt.Sprintf("%q is also the label of secrets[%d]", s.Label, first),
				"give each secret a different label")
		}
		labels[s.Label] = i
		if !s.NotBefore.IsZero() && !s.NotAfter.IsZero() && !s.NotBefore.Before(s.NotAfter) {
			c.bad(at+".not_after", "is not later than not_before",
				"correct one of them: the secret would never be active")
		}
		if s.Value.from == "" {
			c.bad(at+".value", "is missing", fixRef)
			continue
		}
		n := len(s.Value.Value())
		if n == 0 {
			continue
		}
		c.standIn(at+".value", []byte(s.Value.Value()))
		if n < least && !c.cfg.Dev.Enabled {
			c.bad(at+".value", fmt.Sprintf("the secret has %d bytes", n),
				fmt.Sprintf("use a secret of at least %d bytes, such as the provider generates", least))
		}
	}
	c.activeSecret(key, secrets)
}

// standIn rejects a placeholder secret. On a developer's machine any secret is accepted.
func (c *checker) standIn(key string, secret []byte) {
	if err := webhook.CheckStandIn(secret); err != nil && !c.cfg.Dev.Enabled {
		c.bad(key, err.Error(), "")
	}
}

// activeSecret warns of a source without an active secret. It is not a fault, because an expired secret must not
// prevent a process from starting.
func (c *checker) activeSecret(key string, secrets []Secret) {
	problem := ""
	for _, s := range secrets {
		switch {
		case s.Active(c.now):
			return
		case c.now.Before(s.NotBefore):
			problem = fmt.Sprintf("no secret is active yet (%s begins %s), so every delivery is rejected", s.Label,
				s.NotBefore.UTC().Format(time.RFC3339))
		case problem == "":
			problem = fmt.Sprintf("no secret is active any more (%s ended %s), so every delivery is rejected", s.Label,
				s.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if problem != "" {
		c.warn(key, problem, "add the current secret of the provider, or correct not_before and not_after")
	}
}

// sharedSecrets warns of two senders with the same secret. Each source of a generic provider is a separate sender, so
// a delivery to one source that an attacker repeats to the other counts as a different event.
func (c *checker) sharedSecrets() {
	holder := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Sources)) {
		s := c.cfg.Sources[name]
		if !c.providers[s.Provider].Contract.Generic {
			continue
		}
		for i, secret := range s.Secrets {
			value := secret.Value.Value()
			switch first, held := holder[value]; {
			case value == "":
			case held && first != name:
				c.warn(fmt.Sprintf("sources.%s.secrets[%d].value", name, i),
					fmt.Sprintf("is also a secret of sources.%s: an attacker could repeat a delivery to one source at the other, and it would run again", first),
					"give each sender a different secret")
			case !held:
				holder[value] = name
			}
		}
	}
}

// Settings returns the settings with which the provider of a source builds its verifier.
func (c *Config) Settings(name string) webhook.Settings {
	s := c.Sources[name]
	set := webhook.Settings{Source: name, Mode: s.Mode, URL: s.URL, Tolerance: s.Tolerance, Options: s.Options}
	for _, secret := range s.Secrets {
		set.Secrets = append(set.Secrets, webhook.Secret{
			Label: secret.Label, Value: secret.Value.Value(),
			NotBefore: secret.NotBefore, NotAfter: secret.NotAfter,
		})
	}
	if c.Dev.Enabled {
		set.Options = maps.Clone(set.Options)
		if set.Options == nil {
			set.Options = map[string]string{}
		}
		set.Options[webhook.AllowShortSecrets] = "true"
	}
	return set
}
