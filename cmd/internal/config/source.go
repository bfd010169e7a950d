package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// billing is the provider whose events are billing events.
const billing = "stripe"

// sourceName is what may stand in /hooks/{source}, in metrics and in file names.
var sourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,62})$`)

// correlation is empty, a header's name, or a JSON pointer (RFC 6901).
var correlation = regexp.MustCompile(`^([A-Za-z0-9-]{0,64}|(/[^/\s]+)+)$`)

func (s *Source) check(c *checker, key string) {
	name := strings.TrimPrefix(key, "sources.")
	if !sourceName.MatchString(name) {
		c.bad(key, "is no source name", "use lower-case letters, digits, - and _: it is the last part of the URL")
	}
	provider, known := c.providers[s.Provider]
	switch {
	case s.Provider == "":
		c.bad(key+".provider", "is missing", "name one of "+strings.Join(slices.Sorted(maps.Keys(c.providers)), ", "))
	case len(c.providers) > 0 && !known:
		c.bad(key+".provider", fmt.Sprintf("%q is not a known provider", s.Provider), suggest(s.Provider, c.providers))
	}
	s.Contract = provider.Contract
	if s.Mode == "" && s.Provider == billing && !c.cfg.Dev {
		c.bad(key+".mode", "is missing: what is billed in test mode must not reach a live customer",
			"write live or test, and a source for each that you use")
	}
	if _, ok := s.Options[webhook.AllowShortSecrets]; ok && !c.cfg.Dev {
		c.bad(key+".options."+webhook.AllowShortSecrets, "is for dev only",
			fmt.Sprintf("remove it and use a secret of at least %d bytes", webhook.MinSecret))
	}
	if !correlation.MatchString(s.Correlation) {
		c.bad(key+".correlation", fmt.Sprintf("%q is neither a header nor a JSON pointer", s.Correlation),
			"write the header's name, or a pointer such as /data/object/metadata/order")
	}
	s.checkAccounts(c, key+".accounts")
	for i, consumer := range s.Relay {
		if _, ok := c.cfg.Consumers[consumer]; !ok {
			c.bad(fmt.Sprintf("%s.relay[%d]", key, i), fmt.Sprintf("%q is no consumer", consumer),
				"add it under consumers, or correct the name")
		}
	}
	if known {
		c.options(key+".options", s.Options, provider)
	}
	if len(s.Secrets) == 0 && !provider.Contract.SecretOptional {
		c.bad(key+".secrets", "the source has no secret, so nothing could be verified",
			"add one: secrets: [{value: env:NAME}]")
	}
	c.secrets(key+".secrets", s.Secrets, cmp.Or(provider.Contract.MinSecret, webhook.MinSecret))
	s.checkAPI(c, key)
	if known && c.ask {
		c.provider(name, *s, provider)
	}
}

// checkAPI holds the key of the provider's API against the source: a key of the other mode finds nothing, and one that
// may write is more than is needed.
func (s *Source) checkAPI(c *checker, key string) {
	if s.Provider != billing && (s.APIKey.from != "" || s.APIURL != "") {
		c.bad(key+".api_key", "is for provider "+billing+" only", "remove api_key and api_url")
		return
	}
	if s.APIKey.from == "" {
		if s.APIURL != "" {
			c.bad(key+".api_url", "has no api_key beside it", "add api_key, or remove it")
		}
		return
	}
	switch value := s.APIKey.Value(); {
	case value == "":
	case !strings.HasPrefix(value, "rk_") && !strings.HasPrefix(value, "sk_"):
		c.bad(key+".api_key", "is no key of Stripe's API", "make a restricted key that may read customers, subscriptions, invoices, charges, refunds, disputes, credit notes, checkout sessions, events and webhook endpoints: rk_…")
	case s.Mode == webhook.Live && strings.HasPrefix(value[2:], "_test_"), s.Mode == webhook.Test &&
		strings.HasPrefix(value[2:], "_live_"):
		c.bad(key+".api_key", fmt.Sprintf("is of the other mode than the source, which is %s", s.Mode),
			"use the key of the source's mode")
	case strings.HasPrefix(value, "sk_"):
		c.warn(key+".api_key", "is a secret key, which may change everything",
			"make a restricted key that may only read: rk_…")
	}
}

// provider adds the faults that the source's provider finds. It leaves out the settings that are faulty already, so
// that nothing is reported twice, and asks nothing if no secret could be right.
func (c *checker) provider(name string, s Source, p webhook.Provider) {
	key := "sources." + name
	if s.Mode == "" && p.Contract.Mode == "" {
		c.bad(key+".mode", fmt.Sprintf("is missing, and events of %s do not say theirs", p.Name), "write live or test")
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
		// Joined errors are a line each; the key says the source already.
		for line := range strings.Lines(err.Error()) {
			c.fault(key, c.lines[key], strings.TrimPrefix(strings.TrimSpace(line), "source "+name+": "), "")
		}
	}
}

// options reports those that p does not know: a misspelt one would be without effect.
func (c *checker) options(key string, given map[string]string, p webhook.Provider) {
	fix := p.Name + " has no options: remove it"
	if len(p.Contract.Options) > 0 {
		fix = "write one of " + strings.Join(slices.Sorted(maps.Keys(p.Contract.Options)), ", ")
	}
	for name := range given {
		if !knows(p, name) {
			c.bad(key+"."+name, "is no option of "+p.Name, fix)
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
				"give each secret a label of its own")
		}
		labels[s.Label] = i
		if !s.NotBefore.IsZero() && !s.NotAfter.IsZero() && !s.NotBefore.Before(s.NotAfter) {
			c.bad(at+".not_after", "is not later than not_before",
				"the secret would never be active; correct one of them")
		}
		if s.Value.from == "" {
			c.bad(at+".value", "is missing", fixRef)
			continue
		}
		if n := len(s.Value.Value()); n > 0 && n < least && !c.cfg.Dev {
			c.bad(at+".value", fmt.Sprintf("the secret has %d bytes", n),
				fmt.Sprintf("use one of at least %d, such as the provider generates", least))
		}
		c.standIn(at+".value", []byte(s.Value.Value()))
	}
	c.activeSecret(key, secrets)
}

// standIn refuses a secret that only stands where one should be. The key on a developer's machine may be anything.
func (c *checker) standIn(key string, secret []byte) {
	if err := webhook.CheckStandIn(secret); err != nil && !c.cfg.Dev {
		c.bad(key, err.Error(), "")
	}
}

// activeSecret warns of a source that takes nothing now. It is no fault: a window that ends must not keep
// a process from starting that was fine before.
func (c *checker) activeSecret(key string, secrets []Secret) {
	problem := ""
	for _, s := range secrets {
		switch {
		case s.Active(c.now):
			return
		case c.now.Before(s.NotBefore):
			problem = fmt.Sprintf("no secret is active now (%s begins %s), so every delivery is refused", s.Label,
				s.NotBefore.UTC().Format(time.RFC3339))
		case problem == "":
			problem = fmt.Sprintf("no secret is active any more (%s ended %s), so every delivery is refused", s.Label,
				s.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if problem != "" {
		c.warn(key, problem, "add the secret that the provider signs with, or mend the window")
	}
}

// sharedSecrets warns of two senders with one secret. Each source of a generic provider is a sender of its own, so
// that a delivery to one of them, sent to the other by whoever holds it, is another event.
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
					fmt.Sprintf("is also a secret of sources.%s: what was delivered to one of them could be sent to the other, and would run again", first),
					"give each sender a secret of its own")
			case !held:
				holder[value] = name
			}
		}
	}
}

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
