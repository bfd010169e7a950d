package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HTTPSink configures an API that remembers idempotency keys.
type HTTPSink struct {
	// Endpoint serves both modes, unless Live or Test is set: each of them then serves only its own mode.
	Endpoint `yaml:",inline"`
	Live     *Endpoint `yaml:"live"`
	Test     *Endpoint `yaml:"test"`
	Sending  `yaml:",inline"`
	// KeyLifetime is how long the sink remembers a key. Automatic retries end there, because a later retry could be
	// applied twice. The default is the lifetime in Stripe's API, which many APIs have adopted.
	KeyLifetime time.Duration `yaml:"key_lifetime" default:"24h" min:"0s"`
	// Refusals lists responses that concern the customer. With an empty list, no response is a refusal.
	Refusals []Refusal `yaml:"refusals" default:"402 422 451"`
}

// Endpoint configures an API.
type Endpoint struct {
	// URL is the base URL, stored without a trailing slash.
	URL string `yaml:"url" form:"url"`
	// Token, if set, is sent as a bearer token.
	Token Ref `yaml:"token"`
}

// Modes returns the endpoint for each configured mode.
func (s *HTTPSink) Modes() map[string]Endpoint {
	return perMode(s.Endpoint, s.Live, s.Test, func(e Endpoint) bool { return e.URL != "" })
}

func (s *HTTPSink) sink(name string) Sink {
	credentials := map[string]string{}
	for mode, e := range s.Modes() {
		credentials[mode] = "no token is set"
		if e.Token.Value() != "" {
			credentials[mode] = "its token is set"
		}
	}
	return Sink{
		Name: name, Key: "sinks." + name, Sending: s.Sending, KeyLifetime: s.KeyLifetime,
		Credentials: credentials, PerMode: s.Live != nil || s.Test != nil, HTTP: s,
	}
}

func (s *HTTPSink) setDefaults() {
	for _, e := range []*Endpoint{&s.Endpoint, s.Live, s.Test} {
		if e != nil {
			e.URL = strings.TrimRight(e.URL, "/") // paths begin with a slash
		}
	}
	s.Retries.setDefaults(s.KeyLifetime)
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

func (s *HTTPSink) check(c *checker, key string) {
	s.Retries.check(c, key, s.KeyLifetime)
	if c.bothServed(key, s.Live != nil || s.Test != nil, "url", "token") {
		s.Endpoint.check(c, key)
	}
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
