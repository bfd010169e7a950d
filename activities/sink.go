package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Sink is an HTTP API that remembers idempotency keys: it applies a key once, and answers a repeat with the stored
// response.
type Sink struct {
	// URL is the base URL, without a trailing slash.
	URL string
	// Token, if set, is sent as a bearer token.
	Token string
	// Policy contains the timeout, the retries and the lifetime of idempotency keys.
	Policy effect.Policy
	// Refusals lists responses that concern the customer. Every other 4xx is a fault.
	Refusals []Refusal
	Client   *http.Client
}

// Refusal matches a response that refuses the request.
type Refusal struct {
	Status int
	// Code is the value of "code" or "error.code" in the JSON body. "" matches every response with the status.
	Code string
}

// maxAnswer limits the bytes that are read of a response body, which contains only a few fields.
const maxAnswer = 64 << 10

// Request is an HTTP request to a sink.
type Request struct {
	Method, Path string
	Header       map[string]string
	// Body is sent as JSON.
	Body any
}

// send makes one request of an attempt, with the attempt's key and bytes. It returns the response body for 2xx and a
// classified failure otherwise. A lost response is a transient failure, because the key makes a repeat safe.
func (s *Sink) send(ctx context.Context, r Request, a *effect.Attempt) ([]byte, error) {
	header := headerOf(a.IdempotencyKey, s.Token)
	for name, value := range r.Header {
		header.Set(name, headerText(value))
	}
	if a.Correlation != "" {
		header.Set("X-Correlation-Id", headerText(a.Correlation))
	}
	got, err := call(ctx, s.Client, r.Method, s.URL+r.Path, header, a.Request)
	if got == nil {
		return nil, err
	}
	if failure := s.judge(got, a.Repeat); failure != nil {
		return nil, failure
	}
	return got.body, err
}

// headerOf returns the headers of a JSON request, with an idempotency key and a bearer token unless they are "".
//
// The key header is not in canonical form. If net/http finds the canonical form, it silently repeats a request
// without a response. pawl must count the requests and know about missing responses.
func headerOf(key, token string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	if key != "" {
		header["idempotency-key"] = []string{key}
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return header
}

// judge returns the failure that a response represents, or nil.
func (s *Sink) judge(got *answer, repeat bool) *effect.Failure {
	code, detail := got.problem()
	failure := effect.FromStatus(got.Response, detail, time.Now())
	switch {
	case failure == nil || failure.Class != ledger.Fault && failure.Health != effect.Denied:
	case got.StatusCode < 400: // a redirect, e.g. to a maintenance page
		failure.Class, failure.Health = ledger.Transient, effect.Down
	case got.StatusCode == http.StatusUnprocessableEntity && repeat:
		// The response may concern the key, which an earlier attempt has used, and not the customer.
		failure.Unanswered = true
	case slices.ContainsFunc(s.Refusals,
		func(r Refusal) bool { return r.Status == got.StatusCode && (r.Code == "" || r.Code == code) }):
		failure.Class, failure.Health = ledger.Permanent, effect.Answered
	}
	return failure
}

// answer is a response with its body, which is read up to maxAnswer.
type answer struct {
	*http.Response
	body []byte
}

// call makes one request. It returns nil if there was no response. If it returns both a response and an error, the
// body is incomplete. A failure counts as unanswered once there was a connection, because parts of the request may
// have been sent; an unreachable host or an untrusted certificate has received nothing. The error contains only the
// host: path and query may contain tokens, and errors are stored, logged and shown in Temporal.
func call(ctx context.Context, client *http.Client, method, to string, header http.Header, body []byte) (
	got *answer, err error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, to, bytes.NewReader(body))
	if err != nil {
		return nil, effect.Fault("cannot build a request for the URL")
	}
	req.Header = header
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		got = &answer{Response: resp}
		got.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		err = effect.Broken(req.URL.Host, connected.Load(), err)
	}
	return got, err
}

// problem returns the code and the message of a JSON error response: "code", "error" and "message", or an object
// "error" with these fields. Only these are stored, not the whole body.
func (a *answer) problem() (code, words string) {
	if a.StatusCode < 300 || !strings.Contains(a.Header.Get("Content-Type"), "json") {
		return "", ""
	}
	type details struct {
		Code    any
		Message any
	}
	var top struct {
		details
		Error json.RawMessage
	}
	var nested details
	var plain string
	// A field of another type stays empty.
	_ = json.Unmarshal(a.body, &top)
	_ = json.Unmarshal(top.Error, &nested)
	_ = json.Unmarshal(top.Error, &plain)
	text := func(v any) string { s, _ := v.(string); return s }
	return cmp.Or(text(top.Code), text(nested.Code)), cmp.Or(plain, text(nested.Message), text(top.Message))
}

// reference returns the "id" of a response, or "".
func reference(answer []byte) string {
	var created struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(answer, &created) // an answer without an ID is a good answer
	return created.ID
}

// An HTTP/2 connection without traffic for silentFor is pinged, and closed if there is no response within signOfLife.
// That is early enough for the retries of an effect, and does not close connections of a busy server.
const silentFor, signOfLife = 5 * time.Second, 10 * time.Second

// maxAnswerHeader limits the response headers in bytes. The default of net/http, 10 MB, would allow a few sinks to
// fill the worker's memory.
const maxAnswerHeader = 64 << 10

// NewHTTPClient returns the client for requests to outside systems. It does not follow redirects, so a request with
// its body and key is sent only to the configured URL. A response with more than 64 KiB of headers is an error.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	// Keep enough idle connections for every effect in flight. With the default of 2 per host, effects would
	// reconnect.
	transport.MaxIdleConnsPerHost = 64
	transport.MaxIdleConns = 256
	// With HTTP/2 all requests to a host share a connection, and a timeout ends only the request. A ping detects a
	// connection that a gateway has dropped; TCP alone would take a quarter of an hour.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: signOfLife}
	return &http.Client{
		Transport:     unswitched{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unswitched removes the body of a 101 response, which pawl never requests. That body is the connection itself and
// ignores the deadline of the request, so a reader could be blocked for as long as the server likes.
type unswitched struct{ *http.Transport }

func (u unswitched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}
