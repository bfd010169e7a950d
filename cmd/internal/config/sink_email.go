package config

import (
	"fmt"
	"net"
	"net/mail"
)

// EmailSink is the SMTP server.
type EmailSink struct {
	// MailServer serves both modes, unless Live or Test is given: then each serves its own, and none the other.
	MailServer `yaml:",inline"`
	Live       *MailServer `yaml:"live"`
	Test       *MailServer `yaml:"test"`
	Sending    `yaml:",inline"`
	// Guarantee is one of the two, because SMTP cannot do both.
	Guarantee string `yaml:"guarantee" default:"at_most_once" oneof:"at_most_once at_least_once"`
}

// MailServer is where mails are handed over, and whose they are.
type MailServer struct {
	// Address is host:port.
	Address  string `yaml:"address" form:"address"`
	From     string `yaml:"from"`
	TLS      string `yaml:"tls" default:"starttls" oneof:"starttls implicit none"`
	Username string `yaml:"username"`
	Password Ref    `yaml:"password"`
}

// Modes returns the server of each mode that has one.
func (s *EmailSink) Modes() map[string]MailServer {
	return perMode(s.MailServer, s.Live, s.Test, func(m MailServer) bool { return m.Address != "" })
}

func (s *EmailSink) sink(name string) Sink {
	credentials := map[string]string{}
	for mode, m := range s.Modes() {
		credentials[mode] = "no user is set"
		if m.Username != "" {
			credentials[mode] = "its user and password are set"
		}
	}
	return Sink{
		Name: name, Key: "sinks." + name, Sending: s.Sending, Credentials: credentials, PerMode: s.Live != nil ||
			s.Test != nil, Email: s,
	}
}

func (s *EmailSink) setDefaults() { s.Retries.setDefaults(0) }

func (s *EmailSink) check(c *checker, key string) {
	s.Retries.check(c, key, 0)
	if c.bothServed(key, s.Live != nil || s.Test != nil, "address", "from", "tls", "username", "password") {
		s.MailServer.check(c, key)
	}
}

func (s *MailServer) check(c *checker, key string) {
	if s.Address == "" {
		c.bad(key+".address", "is missing", "write the SMTP server's host:port")
	} else if host, port, err := net.SplitHostPort(s.Address); err == nil && (host == "" || port == "0") {
		// The address is dialled, not listened on: without a host, no certificate could be checked.
		c.bad(key+".address", fmt.Sprintf("%q names no host and port to dial", s.Address),
			"write the SMTP server's host:port")
	}
	if s.From == "" {
		c.bad(key+".from", "is missing", "write the sender: Billing <billing@example.com>")
	} else if _, err := mail.ParseAddress(s.From); err != nil {
		c.bad(key+".from", fmt.Sprintf("%q is no address", s.From), "write the sender: Billing <billing@example.com>")
	}
	switch {
	case (s.Username == "") != (s.Password.from == ""):
		c.bad(key+".username", "username and password go together", "set both or neither")
	case s.Username != "" && s.TLS == "none":
		c.bad(key+".tls", "a password would be sent in clear text", "use starttls or implicit")
	}
	if host, _, err := net.SplitHostPort(s.Address); err == nil && s.TLS == "none" && !loopback(host) && !c.cfg.Dev {
		c.warn(key+".tls", "is none: letters and their addresses go in clear text to "+host, "use starttls or implicit")
	}
}
