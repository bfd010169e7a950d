package config

import (
	"errors"
	"fmt"
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
