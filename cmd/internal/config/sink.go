package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Sinks are the outside systems that effects reach. None is required: the effects of one that is not configured are left
// out.
type Sinks struct {
	Workspaces  HTTPSink     `yaml:"workspaces"`
	Finance     HTTPSink     `yaml:"finance"`
	Email       EmailSink    `yaml:"email"`
	Subscribers []Subscriber `yaml:"subscribers"`
}

// HTTPSink is an API that remembers idempotency keys.
type HTTPSink struct {
	// Endpoint serves both modes, unless Live or Test is given: then each serves its own, and none the other.
	Endpoint `yaml:",inline"`
	Live     *Endpoint `yaml:"live"`
	Test     *Endpoint `yaml:"test"`
	// Timeout bounds one request; default 10s.
	Timeout time.Duration `yaml:"timeout"`
	// KeyLifetime is how long the sink remembers a key. Automatic retries stop there, because a
	// retry after it could be applied a second time. Default 24h.
	KeyLifetime time.Duration `yaml:"key_lifetime"`
	Retries     Retries       `yaml:"retries"`
	// Bounds keep what the sink does from other sinks.
	Bounds `yaml:",inline"`
	// Effects is "local" (try as a local activity first; default) or "activity".
	Effects string `yaml:"effects"`
	// Refusals are the answers that say something about the customer; default 402, 422 and 451.
	Refusals []Refusal `yaml:"refusals"`
	// Owner is whom to turn to about the sink.
	Owner string `yaml:"owner"`
}

// Endpoint is where an API is.
type Endpoint struct {
	// URL is the base that paths are added to; it is kept without a slash at its end.
	URL string `yaml:"url"`
	// Token, when set, is sent as a bearer token.
	Token Ref `yaml:"token"`
}

// Modes returns the endpoint of each mode that has one.
func (s HTTPSink) Modes() map[string]Endpoint {
	return perMode(s.Endpoint, s.Live, s.Test, func(e Endpoint) bool { return e.URL != "" })
}

// EmailSink is the SMTP server.
type EmailSink struct {
	// MailServer serves both modes, unless Live or Test is given: then each serves its own, and none the other.
	MailServer `yaml:",inline"`
	Live       *MailServer `yaml:"live"`
	Test       *MailServer `yaml:"test"`
	// Guarantee is "at_most_once" (default) or "at_least_once": SMTP cannot do both.
	Guarantee string `yaml:"guarantee"`
	// Timeout bounds one delivery; default 30s.
	Timeout time.Duration `yaml:"timeout"`
	Retries Retries       `yaml:"retries"`
	// Bounds keep what the server does from other sinks.
	Bounds `yaml:",inline"`
	// Effects is "local" (default) or "activity".
	Effects string `yaml:"effects"`
	// Owner is whom to turn to about the sink.
	Owner string `yaml:"owner"`
}

// MailServer is where mails are handed over, and whose they are.
type MailServer struct {
	// Address is host:port.
	Address string `yaml:"address"`
	From    string `yaml:"from"`
	// TLS is "starttls" (default), "implicit" or "none".
	TLS      string `yaml:"tls"`
	Username string `yaml:"username"`
	Password Ref    `yaml:"password"`
}

// Modes returns the server of each mode that has one.
func (s EmailSink) Modes() map[string]MailServer {
	return perMode(s.MailServer, s.Live, s.Test, func(m MailServer) bool { return m.Address != "" })
}

// perMode returns what serves each mode.
func perMode[E any](both E, live, test *E, configured func(E) bool) map[string]E {
	modes := map[string]E{}
	for mode, own := range map[webhook.Mode]*E{webhook.Live: live, webhook.Test: test} {
		switch {
		case own != nil:
			modes[string(mode)] = *own
		case live == nil && test == nil && configured(both):
			modes[string(mode)] = both
		}
	}
	return modes
}

// Refusal is an answer by which a sink says that this customer cannot have what was asked for. In the file it is a
// status, or a status and a code.
type Refusal struct {
	Status int `yaml:"status"`
	// Code is what the JSON body must say as "code" or "error.code"; "" for any answer of the status.
	Code string `yaml:"code"`
}

// UnmarshalText reads a status.
func (r *Refusal) UnmarshalText(text []byte) (err error) {
	if r.Status, err = strconv.Atoi(string(text)); err != nil {
		return errors.New("write a status such as 422, or {status: 403, code: not_entitled}")
	}
	return nil
}

// Subscriber takes internal events as CloudEvents.
type Subscriber struct {
	Name  string `yaml:"name"`
	URL   string `yaml:"url"`
	Token Ref    `yaml:"token"`
	// Timeout bounds one request; default 10s.
	Timeout time.Duration `yaml:"timeout"`
	// Types are the internal events that it takes; none means all.
	Types []string `yaml:"types"`
}

// internalEvents are the nouns of internal events, and what is told of each; of a dispute each status that Stripe shows.
// docs/sinks.openapi.yaml describes them.
var internalEvents = map[string][]string{
	"access":       {"changed"},
	"checkout":     {"completed"},
	"dispute":      nil,
	"invoice":      {"paid", "closed"},
	"payment":      {"failed"},
	"refund":       {"succeeded", "failed"},
	"subscription": {"changed", "ended"},
}

// The time-outs that hold where none is configured.
const (
	httpTimeout  = 10 * time.Second
	emailTimeout = 30 * time.Second // RFC 5321 §4.5.3.2 grants minutes; a worker does not wait that long
	keyLifetime  = 24 * time.Hour   // what Stripe and those who copied its Idempotency-Key keep
)

func (s *Sinks) setDefaults() {
	for _, sink := range []*HTTPSink{&s.Workspaces, &s.Finance} {
		for _, e := range []*Endpoint{&sink.Endpoint, sink.Live, sink.Test} {
			if e != nil {
				e.URL = strings.TrimRight(e.URL, "/") // each path begins with one
			}
		}
		or(&sink.Timeout, httpTimeout)
		or(&sink.KeyLifetime, keyLifetime)
		sink.Retries.setDefaults(sink.KeyLifetime)
		sink.Bounds.setDefaults()
		or(&sink.Effects, "local")
		if sink.Refusals == nil { // an empty list refuses nothing
			sink.Refusals = []Refusal{{Status: 402}, {Status: 422}, {Status: 451}}
		}
	}
	for _, m := range []*MailServer{&s.Email.MailServer, s.Email.Live, s.Email.Test} {
		if m != nil {
			or(&m.TLS, "starttls")
		}
	}
	or(&s.Email.Guarantee, "at_most_once")
	or(&s.Email.Timeout, emailTimeout)
	s.Email.Retries.setDefaults(0)
	s.Email.Bounds.setDefaults()
	or(&s.Email.Effects, "local")
	for i := range s.Subscribers {
		or(&s.Subscribers[i].Timeout, httpTimeout)
	}
}

func (c *checker) sinks() {
	sinks := &c.cfg.Sinks
	c.httpSink("sinks.workspaces", &sinks.Workspaces)
	c.httpSink("sinks.finance", &sinks.Finance)
	c.email("sinks.email", &sinks.Email)
	names := map[string]bool{}
	for i := range sinks.Subscribers {
		s, key := &sinks.Subscribers[i], fmt.Sprintf("sinks.subscribers[%d]", i)
		if s.Name == "" || names[s.Name] {
			c.bad(key+".name", "is missing or used twice", "give each subscriber a name of its own: what it has taken is remembered under it")
		}
		names[s.Name] = true
		c.neededURL(key+".url", s.URL)
		c.positive(key+".timeout", s.Timeout)
		c.resolve(&s.Token, key+".token")
		for i, t := range s.Types {
			noun, told, _ := strings.Cut(t, ".")
			verbs, known := internalEvents[noun]
			if !known || told == "" || told != "*" && verbs != nil && !slices.Contains(verbs, told) {
				c.bad(fmt.Sprintf("%s.types[%d]", key, i), fmt.Sprintf("%q is no internal event", t), "write one of docs/effects.md, such as access.changed, or invoice.* for all of a noun")
			}
		}
	}
}

// eachMode checks what serves both modes, or what serves each. What is not written at all is not configured.
func eachMode[E any](c *checker, key string, both, live, test *E, check func(key string, e *E), settings ...string) {
	atTop := slices.ContainsFunc(settings, func(name string) bool { return c.stands(key + "." + name) })
	if live == nil && test == nil {
		if c.stands(key) {
			check(key, both)
		}
		return
	}
	for name, own := range map[string]*E{".live": live, ".test": test} {
		if own != nil && atTop {
			c.bad(key+name, "stands beside settings for both modes", "move "+strings.Join(settings, ", ")+" into live and test")
		}
		if own != nil {
			check(key+name, own)
		}
	}
}

func (c *checker) httpSink(key string, s *HTTPSink) {
	eachMode(c, key, &s.Endpoint, s.Live, s.Test, c.endpoint, "url", "token")
	c.positive(key+".timeout", s.Timeout)
	c.positive(key+".key_lifetime", s.KeyLifetime)
	c.oneOf(key+".effects", s.Effects, "local", "activity")
	for i, r := range s.Refusals {
		c.refusal(fmt.Sprintf("%s.refusals[%d]", key, i), r)
	}
}

func (c *checker) endpoint(key string, e *Endpoint) {
	c.neededURL(key+".url", e.URL)
	if strings.ContainsAny(e.URL, "?#") {
		c.bad(key+".url", "has a query or a fragment, and a path is written at its end", "write the base alone: https://host/path")
	}
	c.resolve(&e.Token, key+".token")
}

// refusal refuses what would take back payments by an answer that says nothing about the customer.
func (c *checker) refusal(key string, r Refusal) {
	switch {
	case r.Status < 400 || r.Status > 499:
		c.bad(key, fmt.Sprintf("%d is no status that refuses", r.Status), "write one from 400 to 499")
	case slices.Contains([]int{408, 409, 425, 429}, r.Status):
		c.bad(key, fmt.Sprintf("%d can pass, and is tried again", r.Status), "remove it")
	case slices.Contains([]int{401, 403, 404, 405, 407, 413, 415}, r.Status) && r.Code == "":
		c.bad(key, fmt.Sprintf("%d is also what an expired token or a wrong path gets, which must not take back what was paid for", r.Status),
			fmt.Sprintf("name the code that the body says: {status: %d, code: not_entitled}", r.Status))
	}
}

func (c *checker) email(key string, s *EmailSink) {
	eachMode(c, key, &s.MailServer, s.Live, s.Test, c.mailServer, "address", "from", "tls", "username", "password")
	c.oneOf(key+".guarantee", s.Guarantee, "at_most_once", "at_least_once")
	c.oneOf(key+".effects", s.Effects, "local", "activity")
	c.positive(key+".timeout", s.Timeout)
}

func (c *checker) mailServer(key string, s *MailServer) {
	if s.Address == "" {
		c.bad(key+".address", "is missing", "write the SMTP server's host:port")
	} else {
		c.hostPort(key+".address", s.Address)
		// It is dialled and not listened on: without a host there is none whose certificate could be checked.
		if host, port, err := net.SplitHostPort(s.Address); err == nil && (host == "" || port == "0") {
			c.bad(key+".address", fmt.Sprintf("%q names no host and port to dial", s.Address), "write the SMTP server's host:port")
		}
	}
	if s.From == "" {
		c.bad(key+".from", "is missing", "write the sender: Billing <billing@example.com>")
	} else if _, err := mail.ParseAddress(s.From); err != nil {
		c.bad(key+".from", fmt.Sprintf("%q is no address", s.From), "write the sender: Billing <billing@example.com>")
	}
	c.oneOf(key+".tls", s.TLS, "starttls", "implicit", "none")
	c.resolve(&s.Password, key+".password")
	switch {
	case (s.Username == "") != (s.Password.from == ""):
		c.bad(key+".username", "username and password go together", "set both or neither")
	case s.Username != "" && s.TLS == "none":
		c.bad(key+".tls", "a password would be sent in clear text", "use starttls or implicit")
	}
}
