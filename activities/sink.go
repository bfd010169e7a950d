package activities

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Sink is an HTTP API that remembers idempotency keys. It applies the request with a key once, and answers a repeat
// with the stored response.
type Sink struct {
	// URL is the base URL, without a trailing slash.
	URL string
	// Token, if set, is sent as a bearer token.
	Token string
	// Policy contains the timeout, the retries and the lifetime of idempotency keys.
	Policy effect.Policy
	// Refusals lists the responses with which the sink refuses a request because of the customer. Every other 4xx
	// response is a fault.
	Refusals []Refusal
	Client   *http.Client
}

// Refusal matches a response that refuses the request.
type Refusal struct {
	Status int
	// Code is the value of "code" or "error.code" in the JSON body. "" matches every response with the status.
	Code string
}

// Request is an HTTP request to a sink.
type Request struct {
	Method, Path string
	Header       map[string]string
	// Body is sent as JSON.
	Body any
}

// send makes one request of an attempt, with the attempt's key and bytes. It returns the response body for 2xx, and an
// [effect.Failure] otherwise. A missing response is a transient failure, because a repeat with the same key is safe.
func (s *Sink) send(ctx context.Context, r Request, a *effect.Attempt) ([]byte, error) {
	got, err := s.Exchange(ctx, r, a)
	if got == nil {
		return nil, err
	}
	return got.Content, err
}

// Exchange is [Sink.send] with the whole response. If it returns an error, the response is nil or incomplete.
func (s *Sink) Exchange(ctx context.Context, r Request, a *effect.Attempt) (*httpcall.Response, error) {
	header := httpcall.Header(a.IdempotencyKey, s.Token)
	for name, value := range r.Header {
		header.Set(name, httpcall.HeaderText(value))
	}
	if a.Correlation != "" {
		header.Set("X-Correlation-Id", httpcall.HeaderText(a.Correlation))
	}
	got, err := httpcall.Do(ctx, s.Client, r.Method, s.URL+r.Path, header, a.Request)
	if got == nil {
		return nil, err
	}
	if failure := s.judge(got, a.Repeat); failure != nil {
		return nil, failure
	}
	return got, err
}

// judge returns the failure that a response represents, or nil.
func (s *Sink) judge(got *httpcall.Response, repeat bool) *effect.Failure {
	code, detail := got.Problem()
	failure := effect.FromStatus(got.Response, detail, time.Now())
	refused := slices.ContainsFunc(s.Refusals,
		func(r Refusal) bool { return r.Status == got.StatusCode && (r.Code == "" || r.Code == code) })
	switch {
	case failure != nil && refused && got.StatusCode == http.StatusConflict:
		// Only a step of a flow lists 409. In response to a repeat, it may concern the key and not the customer.
		failure.Class, failure.Health, failure.Unanswered, failure.RetryAfter = ledger.Permanent, effect.Answered,
			repeat, 0
		if repeat {
			failure.Class = ledger.Fault
		}
	case failure == nil || failure.Class != ledger.Fault && failure.Health != effect.Denied:
	case got.StatusCode < 400: // a redirect, e.g. to a maintenance page
		failure.Class, failure.Health = ledger.Transient, effect.Down
	case got.StatusCode == http.StatusUnprocessableEntity && repeat:
		// The sink may refuse the repeated key and not the customer.
		failure.Unanswered = true
	case refused:
		failure.Class, failure.Health = ledger.Permanent, effect.Answered
	}
	return failure
}

// reference returns the "id" of a response, or "".
func reference(answer []byte) string {
	var created struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(answer, &created) // a response need not contain an ID
	return created.ID
}
