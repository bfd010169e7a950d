package config

import (
	"fmt"
	"net"
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
	// ask: the check also asks each source's provider.
	ask bool
	// asks: the command needs only the database, so that any other unreadable secret is a warning.
	asks bool
}

// bad adds a fault of the setting at key, unless the decoder already refused it.
func (c *checker) bad(key, problem, fix string) {
	if slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Key == key }) {
		return
	}
	c.fault(key, c.lines[key], problem, fix)
}

// checkable is a part of the file with rules of its own.
type checkable interface{ check(c *checker, key string) }

func (c *checker) check() {
	cfg := c.cfg
	if v := cfg.Database.Value(); v != "" && !strings.HasPrefix(v, "postgres://") &&
		!strings.HasPrefix(v, "postgresql://") && !strings.Contains(v, "=") {
		c.bad("database", "does not refer to a Postgres DSN", "use postgres://user:password@host:5432/database")
	}
	c.day()
	c.listenersDiffer()
	if len(cfg.Sources) == 0 {
		c.bad("sources", "no source is configured", "add one: sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:STRIPE_WEBHOOK_SECRET}]}}")
	}
	walk(reflect.ValueOf(cfg).Elem(), "", func(v reflect.Value, key string, _ reflect.StructTag) {
		if s, ok := v.Addr().Interface().(checkable); ok {
			s.check(c, key)
		}
	})
	c.sharedSecrets()
	c.exposed()
}

// resolve reads a reference; a warning goes to the configuration.
func (c *checker) resolve(r *Ref, key string) {
	warning, err := r.resolve(c.dir, c.env)
	switch fix := "set it, or correct " + strconv.Quote(r.String()); {
	case err != nil && c.asks && key != "database":
		c.warn(key, err.Error(), fix)
	case err != nil:
		c.bad(key, err.Error(), fix)
	}
	if warning != "" {
		c.warn(key, warning, "chmod 600 it")
	}
}

func (c *checker) stands(key string) bool {
	_, ok := c.lines[key]
	return ok
}

func (c *checker) warn(key, problem, fix string) {
	c.cfg.Warnings = append(c.cfg.Warnings, Fault{Key: key, Line: c.lines[key], Problem: problem, Fix: fix})
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

// listenersDiffer keeps the operator's listeners off the public one, and each off the others' ports.
func (c *checker) listenersDiffer() {
	listeners := []struct{ key, addr string }{
		{"ingress.listen", c.cfg.Ingress.Listen}, {"console.listen", c.cfg.Console.Listen},
		{"ops.ingress", c.cfg.Ops.Ingress}, {"ops.worker", c.cfg.Ops.Worker},
		{"ops.console", c.cfg.Ops.Console},
	}
	for i, l := range listeners {
		for _, other := range listeners[:i] {
			if collide(l.addr, other.addr) {
				c.bad(l.key, fmt.Sprintf("%s takes the port of %s (%s)", l.addr, other.key, other.addr),
					"give each listener a port of its own")
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

// BodiesAtOnce is how many bytes of bodies an ingress holds at once: with body limits alone, a thousand
// strangers could have it hold a thousand times one.
const BodiesAtOnce = 64 << 20

// largestBody leaves room for others.
const largestBody = BodiesAtOnce / 2

// check refuses a limit that no body could come up to: the ingress would shed it for want of room, and the provider
// would send it again for ever.
func (b Bytes) check(c *checker, key string) {
	if b > largestBody {
		c.bad(key, fmt.Sprintf("is more than %d MiB: all bodies together get %d MiB", largestBody>>20,
			BodiesAtOnce>>20), fmt.Sprintf("write %dMiB or less", largestBody>>20))
	}
}

func (r Rate) check(c *checker, key string) {
	if r.PerSecond == 0 && r.Burst > 0 {
		c.bad(key+".per_second", "is missing", "a burst needs a rate; write per_second")
	}
}

func (c *checker) needed(key, url string) {
	if url == "" {
		c.bad(key, "is missing", "write where the system is reached: https://host/path")
	}
}
