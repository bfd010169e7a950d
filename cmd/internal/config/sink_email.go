package config

import (
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"
)

// EmailSink configures the SMTP server.
type EmailSink struct {
	// MailServer serves both modes, unless Live or Test is set: each of them then serves only its own mode.
	MailServer `yaml:",inline"`
	Live       *MailServer `yaml:"live"`
	Test       *MailServer `yaml:"test"`
	Sending    `yaml:",inline"`
	// Guarantee is at_most_once or at_least_once, because SMTP cannot guarantee exactly once.
	Guarantee string `yaml:"guarantee" default:"at_most_once" oneof:"at_most_once at_least_once"`
	// KeyHeader is the header with which the relay deduplicates e-mails, or "" for a relay without such a header.
	KeyHeader string `yaml:"key_header"`
	// KeyLifetime is how long the relay remembers the value of KeyHeader.
	KeyLifetime time.Duration `yaml:"key_lifetime" default:"12h" min:"1m"`
}

// forgets returns how long the relay remembers keys, or 0 without KeyHeader.
func (s *EmailSink) forgets() time.Duration {
	if s.KeyHeader == "" {
		return 0
	}
	return s.KeyLifetime
}

// headerName lists the characters of a header name.
const headerName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// ownHeaders lists headers that pawl and mail servers set.
var ownHeaders = []string{"From", "To", "Cc", "Bcc", "Sender", "Reply-To", "Subject", "Date", "Message-Id", "Received",
	"Return-Path", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "Auto-Submitted", "X-Pawl-Account"}

// MailServer configures an SMTP server and the sender.
type MailServer struct {
	// Address is host:port.
	Address  string `yaml:"address" form:"address"`
	From     string `yaml:"from"`
	TLS      string `yaml:"tls" default:"starttls" oneof:"starttls implicit none"`
	Username string `yaml:"username"`
	Password Ref    `yaml:"password"`
}

// Modes returns the server for each configured mode.
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
			s.Test != nil, Email: s, KeyLifetime: s.forgets(),
	}
}

func (s *EmailSink) setDefaults() { s.Retries.setDefaults(s.forgets()) }

func (s *EmailSink) check(c *checker, key string) {
	s.Retries.check(c, key, s.forgets())
	own := slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(s.KeyHeader))
	if strings.Trim(s.KeyHeader, headerName) != "" || own {
		c.bad(key+".key_header", fmt.Sprintf("%q is not the name of a header of the relay", s.KeyHeader),
			"write the name from the documentation of the relay, such as Resend-Idempotency-Key")
	}
	if c.bothServed(key, s.Live != nil || s.Test != nil, "address", "from", "tls", "username", "password") {
		s.MailServer.check(c, key)
	}
}

func (s *MailServer) check(c *checker, key string) {
	if s.Address == "" {
		c.bad(key+".address", "is missing", "write the SMTP server's host:port")
	} else if host, port, err := net.SplitHostPort(s.Address); err == nil && (host == "" || port == "0") {
		// The address is dialled, not listened on. Without a host, no certificate could be verified.
		c.bad(key+".address", fmt.Sprintf("%q names no host and port to dial", s.Address),
			"write the SMTP server's host:port")
	}
	if s.From == "" {
		c.bad(key+".from", "is missing", "write the sender: Billing <billing@example.com>")
	} else if _, err := mail.ParseAddress(s.From); err != nil {
		c.bad(key+".from", fmt.Sprintf("%q is not an address", s.From),
			"write the sender: Billing <billing@example.com>")
	}
	switch {
	case (s.Username == "") != (s.Password.from == ""):
		c.bad(key+".username", "username and password must be set together", "set both or neither")
	case s.Username != "" && s.TLS == "none":
		c.bad(key+".tls", "a password would be sent in clear text", "use starttls or implicit")
	}
	if host, _, err := net.SplitHostPort(s.Address); err == nil && s.TLS == "none" && !loopback(host) && !c.cfg.Dev {
		c.warn(key+".tls", "is none: e-mails and addresses are sent in clear text to "+host,
			"use starttls or implicit")
	}
}
