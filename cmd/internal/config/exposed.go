package config

import (
	"fmt"
	"net"
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
	for _, s := range c.cfg.AllSinks() {
		switch {
		case s.HTTP != nil:
			for _, at := range parts(s.Key, s.HTTP.Endpoint, s.HTTP.Live, s.HTTP.Test) {
				c.tokenInClear(at.key, at.of.URL, at.of.Token)
			}
		case s.Email != nil:
			for _, at := range parts(s.Key, s.Email.MailServer, s.Email.Live, s.Email.Test) {
				c.mailInClear(at.key, at.of)
			}
		case s.Consumer != nil:
			c.tokenInClear(s.Key, s.Consumer.URL, Ref{})
		case s.Notify != nil && s.Notify.Kind == NotifyMail:
			c.mailInClear(s.Key, s.Notify.MailServer)
		case s.Notify != nil:
			c.tokenInClear(s.Key, s.Notify.URL.Value(), s.Notify.Token)
		}
	}
	for i, s := range c.cfg.Sinks.Subscribers {
		c.tokenInClear(fmt.Sprintf("sinks.subscribers[%d]", i), s.URL, s.Token)
	}
}

// part is a section of a sink: what serves both modes, or one.
type part[E any] struct {
	key string
	of  E
}

func parts[E any](key string, both E, live, test *E) []part[E] {
	all := []part[E]{{key, both}}
	if live != nil {
		all = append(all, part[E]{key + ".live", *live})
	}
	if test != nil {
		all = append(all, part[E]{key + ".test", *test})
	}
	return all
}

func (c *checker) tokenInClear(key, raw string, token Ref) {
	u, err := url.Parse(raw)
	if err != nil {
		return // it is a fault already
	}
	if _, given := u.User.Password(); given {
		c.warn(key+".url", "holds a password, which whoever reads this file knows",
			"send a token instead, by reference: token: env:NAME")
	}
	if u.Scheme == "http" && token.Value() != "" && !loopback(u.Hostname()) {
		c.warn(key+".token", "is sent in clear text to "+u.Host, "use https")
	}
}

func (c *checker) mailInClear(key string, m MailServer) {
	if host, _, err := net.SplitHostPort(m.Address); err == nil && m.TLS == "none" && !loopback(host) {
		c.warn(key+".tls", "is none: letters and their addresses go in clear text to "+host, "use starttls or implicit")
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
