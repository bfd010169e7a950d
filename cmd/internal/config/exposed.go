package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// exposed warns of connections that others on the way could read or forge, and of a proxy that is not trusted: pawl
// speaks plain HTTP, so there is one if the public URL is https. In dev nothing leaves the machine.
func (c *checker) exposed() {
	if strings.HasPrefix(c.cfg.Ingress.PublicURL, "https:") && len(c.cfg.Ingress.Limits.TrustedProxies) == 0 {
		c.warn("ingress.limits.trusted_proxies", "is empty, and ingress.public_url is https, which a proxy must end: all that it forwards counts as one sender",
			"write the proxy's network")
	}
	if c.cfg.Dev {
		return
	}
	c.databaseInClear()
	for i, n := range c.cfg.Ingress.Limits.TrustedProxies {
		if n.IsValid() && n.Bits() == 0 {
			c.warn(fmt.Sprintf("ingress.limits.trusted_proxies[%d]", i), "trusts every address: any sender may write X-Forwarded-For and pass for another",
				"write the proxy's network")
		}
	}
}

// inClear warns of a URL with a password, and of a token that is sent in clear text.
func (c *checker) inClear(key, raw string, token Ref) {
	u, err := url.Parse(raw)
	if err != nil || c.cfg.Dev {
		return // it is a fault already, or never leaves the machine
	}
	if _, given := u.User.Password(); given {
		c.warn(key+".url", "holds a password, which whoever reads this file knows",
			"send a token instead, by reference: token: env:NAME")
	}
	if u.Scheme == "http" && token.Value() != "" && !loopback(u.Hostname()) {
		c.warn(key+".token", "is sent in clear text to "+u.Host, "use https")
	}
}

// setting finds a setting of a DSN of the form "host=db user=pawl".
var setting = regexp.MustCompile(`(?:^|\s)(host|sslmode)\s*=\s*'?([^\s']*)`)

// databaseInClear warns of a database on another host whose certificate is not checked.
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
	c.warn("database", "is on "+host+", and nothing checks that it is that host which answers: events and the password could be read on the way",
		"add sslmode=verify-full, and sslrootcert for an authority of your own")
}
