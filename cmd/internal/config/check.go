package config

import (
	"fmt"
	"maps"
	"net"
	"net/mail"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// checker holds the rules. It adds to the decoder's faults, so that a file with a wrong key and a
// wrong value is told both at once.
type checker struct {
	*decoder
	cfg       *Config
	dir       string
	env       func(string) (string, bool)
	now       time.Time
	providers map[string]webhook.Provider
	// ask has the providers asked about their sources.
	ask bool
}

// bad adds a fault of the setting at key, unless the decoder already refused it.
func (c *checker) bad(key, problem, fix string) {
	if slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Key == key }) {
		return
	}
	c.fault(key, c.lines[key], problem, fix)
}

func (c *checker) check() {
	cfg := c.cfg
	c.resolve(&cfg.Database, "database")
	if v := cfg.Database.Value(); v != "" && !strings.HasPrefix(v, "postgres://") && !strings.HasPrefix(v, "postgresql://") && !strings.Contains(v, "=") {
		c.bad("database", "does not refer to a Postgres DSN", "use postgres://user:password@host:5432/database")
	}
	c.temporal()
	c.hostPort("ingress.listen", cfg.Ingress.Listen)
	c.hostPort("console.listen", cfg.Console.Listen)
	c.hostPort("ops.listen", cfg.Ops.Listen)
	c.listenersDiffer()
	c.optionalURL("ingress.public_url", cfg.Ingress.PublicURL)
	if d := cfg.Ingress.ShutdownDelay; d < 0 || d > maxShutdownDelay {
		c.bad("ingress.shutdown_delay", fmt.Sprintf("%s is not between 0 and %s", d, maxShutdownDelay), "write how long your load balancer needs to notice, such as 10s")
	}
	c.bodyLimit("ingress.body_limit", cfg.Ingress.BodyLimit)
	c.notNegative("ingress.limits", cfg.Ingress.Limits)
	c.rate("ingress.limits.per_source", cfg.Ingress.Limits.PerSource)
	c.rate("ingress.limits.per_address", cfg.Ingress.Limits.PerAddress)
	if len(cfg.Sources) == 0 {
		c.bad("sources", "no source is configured", "add one: sources: {stripe: {provider: stripe, secrets: [{value: env:STRIPE_WEBHOOK_SECRET}]}}")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		c.source(name, cfg.Sources[name])
	}
	c.sharedSecrets()
	c.sinks()
	c.consumers()
	c.plans()
}

// resolve reads a reference; a warning goes to the configuration.
func (c *checker) resolve(r *Ref, key string) {
	warning, err := r.resolve(c.dir, c.env)
	if err != nil {
		c.bad(key, err.Error(), "set it, or correct "+strconv.Quote(r.String()))
	}
	if warning != "" {
		c.warn(key, warning, "chmod 600 it")
	}
}

// warn tells what is doubtful about the setting at key, and no fault.
func (c *checker) warn(key, problem, fix string) {
	c.cfg.Warnings = append(c.cfg.Warnings, Fault{Key: key, Line: c.lines[key], Problem: problem, Fix: fix})
}

// billing is the provider whose flows reach the sinks.
const billing = "stripe"

func (c *checker) sinks() {
	needed := false
	for _, s := range c.cfg.Sources {
		needed = needed || s.Provider == billing
	}
	sinks := &c.cfg.Sinks
	c.httpSink("sinks.workspaces", &sinks.Workspaces, needed)
	c.httpSink("sinks.finance", &sinks.Finance, needed)
	c.email("sinks.email", &sinks.Email, needed)
	names := map[string]bool{}
	for i := range sinks.Subscribers {
		s, key := &sinks.Subscribers[i], fmt.Sprintf("sinks.subscribers[%d]", i)
		if s.Name == "" || names[s.Name] {
			c.bad(key+".name", "is missing or used twice", "give each subscriber a name of its own: what it has taken is remembered under it")
		}
		names[s.Name] = true
		c.neededURL(key+".url", s.URL, true)
		c.positive(key+".timeout", s.Timeout)
		c.resolve(&s.Token, key+".token")
	}
}

func (c *checker) httpSink(key string, s *HTTPSink, needed bool) {
	c.neededURL(key+".url", s.URL, needed)
	if strings.ContainsAny(s.URL, "?#") {
		c.bad(key+".url", "has a query or a fragment, and a path is written at its end", "write the base alone: https://host/path")
	}
	c.positive(key+".timeout", s.Timeout)
	c.positive(key+".key_lifetime", s.KeyLifetime)
	c.oneOf(key+".effects", s.Effects, "local", "activity")
	c.resolve(&s.Token, key+".token")
}

func (c *checker) email(key string, s *EmailSink, needed bool) {
	if needed && s.Address == "" {
		c.bad(key+".address", "is missing", "write the SMTP server's host:port")
	} else if s.Address != "" {
		c.hostPort(key+".address", s.Address)
		// It is dialled and not listened on: without a host there is none whose certificate could be checked.
		if host, port, err := net.SplitHostPort(s.Address); err == nil && (host == "" || port == "0") {
			c.bad(key+".address", fmt.Sprintf("%q names no host and port to dial", s.Address), "write the SMTP server's host:port")
		}
	}
	if s.From == "" && needed {
		c.bad(key+".from", "is missing", "write the sender: Billing <billing@example.com>")
	} else if _, err := mail.ParseAddress(s.From); s.From != "" && err != nil {
		c.bad(key+".from", fmt.Sprintf("%q is no address", s.From), "write the sender: Billing <billing@example.com>")
	}
	c.oneOf(key+".tls", s.TLS, "starttls", "implicit", "none")
	c.oneOf(key+".guarantee", s.Guarantee, "at_most_once", "at_least_once")
	c.oneOf(key+".effects", s.Effects, "local", "activity")
	c.positive(key+".timeout", s.Timeout)
	c.resolve(&s.Password, key+".password")
	switch {
	case (s.Username == "") != (s.Password.from == ""):
		c.bad(key+".username", "username and password go together", "set both or neither")
	case s.Username != "" && s.TLS == "none":
		c.bad(key+".tls", "a password would be sent in clear text", "use starttls or implicit")
	}
}

func (c *checker) plans() {
	p := c.cfg.Plans
	plans := slices.Sorted(maps.Keys(p.Features))
	unknown := "add it to plans.features"
	if len(plans) > 0 {
		unknown += ", or use one of " + strings.Join(plans, ", ")
	}
	for _, price := range slices.Sorted(maps.Keys(p.Prices)) {
		if plan := p.Prices[price]; !slices.Contains(plans, plan) {
			c.bad("plans.prices."+price, fmt.Sprintf("%q is a plan without features", plan), unknown)
		}
	}
	for i, plan := range p.Onboarding {
		if !slices.Contains(plans, plan) {
			c.bad(fmt.Sprintf("plans.onboarding[%d]", i), fmt.Sprintf("%q is a plan without features", plan), unknown)
		}
	}
	c.noDuplicates("plans.onboarding", p.Onboarding)
	for _, plan := range plans {
		c.noDuplicates("plans.features."+plan, p.Features[plan])
	}
}

func (c *checker) noDuplicates(key string, list []string) {
	for i, v := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		if strings.TrimSpace(v) == "" {
			c.bad(at, "is empty", "write a name or remove it")
		} else if slices.Contains(list[:i], v) {
			c.bad(at, fmt.Sprintf("%q stands twice", v), "remove one")
		}
	}
}

// hostPort accepts "host:port" and ":port".
func (c *checker) hostPort(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	n, perr := strconv.Atoi(port)
	if err != nil || perr != nil || n < 0 || n > 65535 {
		c.bad(key, fmt.Sprintf("%q is no address", addr), "write host:port, such as 127.0.0.1:8080")
	}
}

// listenersDiffer keeps the operator's listeners off the public one, and each off the others' ports.
func (c *checker) listenersDiffer() {
	listeners := []struct{ key, addr string }{
		{"ingress.listen", c.cfg.Ingress.Listen}, {"console.listen", c.cfg.Console.Listen}, {"ops.listen", c.cfg.Ops.Listen},
	}
	for i, l := range listeners {
		for _, other := range listeners[:i] {
			if collide(l.addr, other.addr) {
				c.bad(l.key, fmt.Sprintf("%s takes the port of %s (%s)", l.addr, other.key, other.addr), "give each listener a port of its own")
			}
		}
	}
}

// collide reports whether two listen addresses cannot be taken at once: one port of one host, or of every
// host beside a single one.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everyHost(hostA) || everyHost(hostB) || loopback(hostA) && loopback(hostB)
}

func everyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// loopback reports whether host is what localhost stands for.
func loopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// maxShutdownDelay is longer than any load balancer takes to notice.
const maxShutdownDelay = 5 * time.Minute

// BodiesAtOnce is how many bytes of bodies an ingress holds at once: with body limits alone, a thousand
// strangers could have it hold a thousand times one.
const BodiesAtOnce = 64 << 20

// bodyLimit refuses a limit that no body could come up to: the ingress would shed it for want of room, and
// the provider would send it again for ever.
func (c *checker) bodyLimit(key string, limit Bytes) {
	if limit > BodiesAtOnce {
		c.bad(key, fmt.Sprintf("is more than the %d MiB of bodies that the ingress holds at once", BodiesAtOnce>>20), fmt.Sprintf("write %dMiB or less", BodiesAtOnce>>20))
	}
}

func (c *checker) rate(key string, r Rate) {
	if r.PerSecond == 0 && r.Burst > 0 {
		c.bad(key+".per_second", "is missing", "a burst needs a rate; write per_second")
	}
}

// notNegative faults every negative number of a struct.
func (c *checker) notNegative(key string, v any) {
	rv := reflect.ValueOf(v)
	for i := range rv.NumField() {
		at, f := key+"."+rv.Type().Field(i).Tag.Get("yaml"), rv.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			c.notNegative(at, f.Interface())
		case f.CanInt() && f.Int() < 0 && c.written[at]: // a burst is made of its per_second
			c.bad(at, "is negative", "write a positive number, or leave it out")
		}
	}
}

func (c *checker) neededURL(key, raw string, needed bool) {
	if raw == "" {
		if needed {
			c.bad(key, "is missing", "write where the system is reached: https://host/path")
		}
		return
	}
	c.optionalURL(key, raw)
}

func (c *checker) optionalURL(key, raw string) {
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		c.bad(key, "is no http or https URL", "write it whole: https://host/path")
	}
}

func (c *checker) positive(key string, d time.Duration) {
	if d < 0 {
		c.bad(key, "is negative", "write a duration such as 10s, or leave it out for the default")
	}
}

func (c *checker) oneOf(key, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		c.bad(key, fmt.Sprintf("%q is not known", v), "write "+strings.Join(allowed, " or "))
	}
}

// joinURL returns the public URL of a source.
func joinURL(base, source string) string {
	return strings.TrimRight(base, "/") + "/hooks/" + source
}
