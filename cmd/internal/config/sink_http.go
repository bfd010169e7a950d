package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HTTPSink is an API that remembers idempotency keys.
type HTTPSink struct {
	// Endpoint serves both modes, unless Live or Test is given: then each serves its own, and none the other.
	Endpoint `yaml:",inline"`
	Live     *Endpoint `yaml:"live"`
	Test     *Endpoint `yaml:"test"`
	Sending  `yaml:",inline"`
	// KeyLifetime is how long the sink remembers a key. Automatic retries stop there, because a
	// retry after it could be applied a second time. Its default is what Stripe and those who copied its
	// Idempotency-Key keep.
	KeyLifetime time.Duration `yaml:"key_lifetime" default:"24h" min:"0s"`
	// Refusals are the answers that say something about the customer. An empty list refuses nothing.
	Refusals []Refusal `yaml:"refusals" default:"402 422 451"`
}

// Endpoint is where an API is.
type Endpoint struct {
	// URL is the base that paths are added to; it is kept without a slash at its end.
	URL string `yaml:"url" form:"url"`
	// Token, when set, is sent as a bearer token.
	Token Ref `yaml:"token"`
}

// Modes returns the endpoint of each mode that has one.
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
			e.URL = strings.TrimRight(e.URL, "/") // each path begins with one
		}
	}
	s.Retries.setDefaults(s.KeyLifetime)
}

// Refusal is a sink's answer that this customer cannot have the requested change. In the file it is a status, or a
// status and a code.
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

func (s *HTTPSink) check(c *checker, key string) {
	s.Retries.check(c, key, s.KeyLifetime)
	if c.bothServed(key, s.Live != nil || s.Test != nil, "url", "token") {
		s.Endpoint.check(c, key)
	}
}

func (e *Endpoint) check(c *checker, key string) {
	c.needed(key+".url", e.URL)
	if strings.ContainsAny(e.URL, "?#") {
		c.bad(key+".url", "has a query or a fragment, and a path is written at its end",
			"write the base alone: https://host/path")
	}
	c.inClear(key, e.URL, e.Token)
}

// check refuses what would take back payments by an answer that says nothing about the customer.
func (r *Refusal) check(c *checker, key string) {
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
