package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// exposed warns of connections that could be read or forged in the network, and of a missing trusted proxy: pawl
// serves plain HTTP, so an https public URL implies a proxy. In dev, no connection leaves the machine.
func (c *checker) exposed() {
	if strings.HasPrefix(c.cfg.Ingress.PublicURL, "https:") && len(c.cfg.Ingress.Limits.TrustedProxies) == 0 {
		c.warn("ingress.limits.trusted_proxies", "is empty, but ingress.public_url is https, so a proxy terminates TLS: all requests through the proxy count as one sender",
			"write the proxy's network")
	}
	if c.cfg.Dev.Enabled {
		return
	}
	c.databaseInClear()
	c.trusted()
	c.twoPeople()
	console := &c.cfg.Console
	if u, err := url.Parse(console.OIDC.Issuer); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		c.bad("console.oidc.issuer", "is http: keys and tokens are sent in clear text, so an attacker on the network could sign in as any person",
			"use https")
	}
	if strings.HasPrefix(console.URL, "https:") && console.Users != "" && len(console.TrustedProxies) == 0 &&
		len(console.Proxy.From) == 0 {
		c.warn("console.trusted_proxies", "is empty, but console.url is https, so a proxy terminates TLS: sign-in limits count all people as one address",
			"write the proxy's network")
	}
	walk(reflect.ValueOf(c.cfg).Elem(), "", func(v reflect.Value, key string, tag reflect.StructTag) {
		if tag.Get("form") == "url" {
			c.linkLocal(key, v.String())
		}
		if ref, is := v.Addr().Interface().(*Ref); is && secretKey.MatchString(key) {
			if err := webhook.CheckStandIn([]byte(ref.Value())); err != nil && ref.Value() != "" {
				c.warn(key, err.Error(), "")
			}
		}
	})
	for name, sink := range c.cfg.Notify.Sinks {
		c.linkLocal("notify.sinks."+name+".url", sink.URL.Value())
	}
}

// secretKey matches the keys of secrets that pawl sends, such as tokens. Secrets for verification have a rule of
// their own.
var secretKey = regexp.MustCompile(`\.(token|password|client_secret)$`)

// trusted reports trusted-proxy networks that include almost every address.
func (c *checker) trusted() {
	const fix = "write the proxy's network"
	for key, networks := range map[string][]Network{
		"ingress.limits.trusted_proxies": c.cfg.Ingress.Limits.TrustedProxies,
		"console.trusted_proxies":        c.cfg.Console.TrustedProxies,
		"console.proxy.from":             c.cfg.Console.Proxy.From,
	} {
		for i, n := range networks {
			switch at := fmt.Sprintf("%s[%d]", key, i); {
			case !everybody(n):
			case key == "console.proxy.from":
				c.bad(at, "trusts every address: any client can sign in as any person", fix)
			default:
				c.warn(at, "trusts every address: any client can forge X-Forwarded-For", fix)
			}
		}
	}
}

// everybody reports whether a network contains so many public addresses that it cannot identify a proxy.
func everybody(n Network) bool {
	return n.IsValid() && (n.Addr().Is4() && n.Bits() < 8 || n.Addr().Is6() && n.Bits() < 7)
}

// linkLocal warns of a URL with a link-local address, because cloud providers serve the machine's credentials at such
// an address.
func (c *checker) linkLocal(key, raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		return
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.Unmap().IsLinkLocalUnicast() {
		c.warn(key, "is a link-local address, where cloud providers serve the machine's credentials",
			"write the address of the system")
	}
}

// inClear warns of a URL with a password, and of a token that is sent in clear text.
func (c *checker) inClear(key, raw string, token Ref) {
	u, err := url.Parse(raw)
	if err != nil || c.cfg.Dev.Enabled {
		return // already a fault, or never sent over the network
	}
	if _, given := u.User.Password(); given {
		c.warn(key+".url", "contains a password in clear text",
			"send a token instead, by reference: token: env:NAME")
	}
	if u.Scheme == "http" && token.Value() != "" && !loopback(u.Hostname()) {
		c.warn(key+".token", "is sent in clear text to "+u.Host, "use https")
	}
}

// setting matches a setting in a DSN of the form "host=db user=pawl".
var setting = regexp.MustCompile(`(?:^|\s)(host|sslmode)\s*=\s*'?([^\s']*)`)

// databaseInClear warns of a database on another host without a verified certificate.
func (c *checker) databaseInClear() {
	dsn, found := c.cfg.Database.Value(), map[string]string{}
	if u, err := url.Parse(dsn); err == nil && u.Host != "" {
		found["host"], found["sslmode"] = u.Hostname(), u.Query().Get("sslmode")
	} else {
		for _, m := range setting.FindAllStringSubmatch(dsn, -1) {
			found[m[1]] = m[2]
		}
	}
	if mode, ok := c.env("PGSSLMODE"); ok && found["sslmode"] == "" {
		found["sslmode"] = mode
	}
	host := found["host"]
	if host == "" || strings.HasPrefix(host, "/") || loopback(host) || found["sslmode"] == "verify-full" {
		return
	}
	c.warn("database", "is on "+host+" without verification of its certificate: an attacker on the network could read events and the password",
		"add sslmode=verify-full, and sslrootcert for your own certificate authority")
}

// twoPeople warns if one person can sign in as two different people, or if fewer than two people can sign in.
func (c *checker) twoPeople() {
	ways := 0
	for _, way := range []string{c.cfg.Console.Users, c.cfg.Console.OIDC.Issuer, c.cfg.Console.Proxy.Header} {
		if way != "" {
			ways++
		}
	}
	switch {
	case !c.cfg.Policy.FourEyes:
	case ways > 1:
		c.warn("policy.four_eyes", "needs exactly one sign-in method: with two methods, one person can act as two people",
			"keep one of console.users, console.oidc and console.proxy")
	case ways == 0:
		c.warn("policy.four_eyes", "needs people who can sign in to the console, but no sign-in method is configured",
			"write console.oidc, console.proxy or console.users")
	}
}
