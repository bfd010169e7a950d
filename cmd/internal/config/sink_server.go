package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Endpoint configures an API.
type Endpoint struct {
	// URL is the base URL, stored without a trailing slash.
	URL string `yaml:"url" form:"url"`
	// Token, if set, is sent as a bearer token.
	Token Ref `yaml:"token"`
}

// Refusal matches a response that refuses the requested change for this customer. In the file it is a status, or a
// status and a code.
type Refusal struct {
	Status int `yaml:"status"`
	// Code is the value of "code" or "error.code" in the JSON body. "" matches every response with the status.
	Code string `yaml:"code"`
}

// UnmarshalText parses a status.
func (r *Refusal) UnmarshalText(text []byte) (err error) {
	if r.Status, err = strconv.Atoi(string(text)); err != nil {
		return errors.New("write a status such as 422, or {status: 403, code: not_entitled}")
	}
	return nil
}

func (e *Endpoint) check(c *checker, key string) {
	c.needed(key+".url", e.URL)
	if strings.ContainsAny(e.URL, "?#") {
		c.bad(key+".url", "has a query or a fragment, but a path is appended to it",
			"write only the base URL: https://host/path")
	}
	c.inClear(key, e.URL, e.Token)
}

// check rejects refusals that would compensate payments because of a response that does not concern the customer.
func (r *Refusal) check(c *checker, key string) {
	switch {
	case r.Status < 400 || r.Status > 499:
		c.bad(key, fmt.Sprintf("%d is not a status of a refusal", r.Status), "write a status from 400 to 499")
	case slices.Contains([]int{408, 409, 425, 429}, r.Status):
		c.bad(key, fmt.Sprintf("%d is transient and is retried", r.Status), "remove it")
	case slices.Contains([]int{401, 403, 404, 405, 407, 413, 415}, r.Status) && r.Code == "":
		c.bad(key, fmt.Sprintf("%d is also the response to an expired token or a wrong path, which must not compensate payments", r.Status),
			fmt.Sprintf("add the code in the body: {status: %d, code: not_entitled}", r.Status))
	}
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

func (s *Sink) checkKeyHeader(c *checker, key string) {
	own := slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(s.KeyHeader))
	if strings.Trim(s.KeyHeader, headerName) != "" || own {
		c.bad(key+".key_header", fmt.Sprintf("%q is not the name of a header of the relay", s.KeyHeader),
			"write the name from the documentation of the relay, such as Resend-Idempotency-Key")
	}
}

func (s *MailServer) check(c *checker, key string) {
	if s.Address == "" {
		c.bad(key+".address", "is missing", "write the SMTP server's host:port")
	} else if host, port, err := net.SplitHostPort(s.Address); err == nil && (host == "" || port == "0") {
		// The address is dialled, not listened on. Without a host, no certificate could be verified.
		c.bad(key+".address", fmt.Sprintf("%q has no host or no port", s.Address),
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
	host, _, err := net.SplitHostPort(s.Address)
	if err == nil && s.TLS == "none" && !loopback(host) && !c.cfg.Dev.Enabled {
		c.warn(key+".tls", "is none: e-mails and addresses are sent in clear text to "+host,
			"use starttls or implicit")
	}
}
