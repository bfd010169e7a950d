package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config/stamp"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// checker applies the rules. It adds to the errors of the decoder, so that wrong keys and wrong values are reported
// together.
type checker struct {
	*decoder
	cfg       *Config
	dir       string
	env       func(string) (string, bool)
	now       time.Time
	providers map[string]webhook.Provider
	// ask is set if the check also sends requests to the provider of each source.
	ask bool
	// asks is set if the command needs only the database. Any other unreadable secret is then a warning.
	asks bool
	// secretless is set if the command needs no secret. An unreadable secret is then ignored.
	secretless bool
}

// bad adds a fault for the setting at key, unless the decoder already reported one.
func (c *checker) bad(key, problem, fix string) {
	if slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Key == key }) {
		return
	}
	c.fault(key, c.lines[key], problem, fix)
}

// badAt is bad for a fault of a text. It includes the column of the text.
func (c *checker) badAt(key, problem, fix string) {
	if c.faulty(key) {
		return
	}
	at := c.places[key]
	c.faults = append(c.faults, Fault{Key: key, Line: at.line, Column: at.column, Problem: problem, Fix: fix})
}

// checkable is a section of the configuration that has its own rules.
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
	c.flowsDiffer()
	c.sharedSecrets()
	c.exposed()
}

// resolve reads the value of a reference. A warning is added to the configuration.
func (c *checker) resolve(r *Ref, key string) {
	if path := r.path(c.dir); path != "" {
		c.cfg.SecretFiles = append(c.cfg.SecretFiles, stamp.At(path)) // before it is read, to miss no change
	}
	warning, err := r.resolve(c.dir, c.env)
	switch fix := "set it, or correct " + strconv.Quote(r.String()); {
	case err != nil && c.secretless:
	case err != nil && c.asks && key != "database":
		c.warn(key, err.Error(), fix)
	case err != nil:
		c.bad(key, err.Error(), fix)
	}
	if warning != "" {
		c.cfg.Warnings = append(c.cfg.Warnings,
			Fault{Key: key, Line: c.lines[key], Problem: warning, Fix: "chmod 600 it", FileMode: true})
	}
}

func (c *checker) isSet(key string) bool {
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
			c.bad(at, fmt.Sprintf("%q is listed twice", v), "remove one")
		}
	}
}

// listenersDiffer checks that no two listeners use the same port.
func (c *checker) listenersDiffer() {
	listeners := []struct{ key, addr string }{
		{"ingress.listen", c.cfg.Ingress.Listen}, {"console.listen", c.cfg.Console.Listen},
		{"ops.ingress", c.cfg.Ops.Ingress}, {"ops.worker", c.cfg.Ops.Worker},
		{"ops.console", c.cfg.Ops.Console},
	}
	for i, l := range listeners {
		for _, other := range listeners[:i] {
			if collide(l.addr, other.addr) {
				c.bad(l.key, fmt.Sprintf("%s uses the same port as %s (%s)", l.addr, other.key, other.addr),
					"give each listener a different port")
			}
		}
	}
}

// collide reports whether two listen addresses cannot be bound at the same time: they have the same port and the same
// host, or one of them listens on every host.
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

// loopback reports whether host is an address of localhost.
func loopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// BodiesAtOnce limits the total bytes of request bodies in memory per ingress process. The limit per body alone would
// not be sufficient with a thousand concurrent senders.
const BodiesAtOnce = 64 << 20

// largestBody is the maximum body limit. It leaves memory for other requests.
const largestBody = BodiesAtOnce / 2

// check rejects a body limit that exceeds the available memory: the ingress would reject such a body, and the
// provider would retry it forever.
func (b Bytes) check(c *checker, key string) {
	if b > largestBody {
		c.bad(key, fmt.Sprintf("is more than %d MiB: all bodies in memory share %d MiB", largestBody>>20,
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
		c.bad(key, "is missing", "write the URL of the system: https://host/path")
	}
}
