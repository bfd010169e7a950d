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

// Sink is an HTTP API that remembers idempotency keys: it applies a key once, and answers a repeat of
// the same bytes with the remembered answer.
type Sink struct {
	// URL is the base, without a slash at its end.
	URL string
	// Token, when set, is sent as a bearer token.
	Token string
	// Policy holds the time-out, the number of tries and how long the sink remembers a key.
	Policy effect.Policy
	// Refusals are the answers that say something about the customer. Every other 4xx is a fault.
	Refusals []Refusal
	Client   *http.Client
}

// Refusal is an answer that refuses the request.
type Refusal struct {
	Status int
	// Code is what the JSON body says as "code" or "error.code"; "" stands for any answer of the status.
	Code string
}

// maxAnswer bounds the bytes that are read of an answer: a sink's answer is a few fields.
const maxAnswer = 64 << 10

// Request is how a noun is sent to its API.
type Request struct {
	Method, Path string
	Header       map[string]string
	// Body is the noun, sent as JSON.
	Body any
}

// send makes one request of an attempt: the attempt's key, and the attempt's bytes in place of r's body. It returns the
// answer's body for 2xx and a classified failure otherwise. A lost answer is a transient failure: the key makes the
// repeat safe.
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

// headerOf is the header of a request of JSON: with an idempotency key and a bearer token, "" for none.
//
// The key has a name that is not canonical. net/http looks for the canonical one and, if it is there, silently repeats
// a request without an answer. How often something was sent, and that nobody answered, is for us to know.
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

// judge returns the failure that an answer means, nil for none.
func (s *Sink) judge(got *answer, repeat bool) *effect.Failure {
	code, said := got.told()
	failure := effect.FromStatus(got.Response, said, time.Now())
	switch {
	case failure == nil || failure.Class != ledger.Fault && failure.Health != effect.Denied:
	case got.StatusCode < 400: // the sink is elsewhere for a while, behind a page that says so
		failure.Class, failure.Health = ledger.Transient, effect.Down
	case got.StatusCode == http.StatusUnprocessableEntity && repeat:
		// It may be about the key, which an earlier try has used, and not about the customer.
		failure.Unanswered = true
	case slices.ContainsFunc(s.Refusals,
		func(r Refusal) bool { return r.Status == got.StatusCode && (r.Code == "" || r.Code == code) }):
		failure.Class, failure.Health = ledger.Permanent, effect.Answered
	}
	return failure
}

// answer is an answer whose body is read, up to maxAnswer.
type answer struct {
	*http.Response
	body []byte
}

// call makes one request. The answer is nil where none came, and beside an error it was read in part. What call
// fails with counts as unanswered where anything of the request may have gone out. That is once there is a
// connection: a host that cannot be reached, or whose certificate is not trusted, has been told nothing. The error
// names the host alone: a path and a query may hold tokens, and errors are stored, logged and shown in Temporal.
func call(ctx context.Context, client *http.Client, method, to string, header http.Header, body []byte) (
	got *answer, err error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, to, bytes.NewReader(body))
	if err != nil {
		return nil, effect.Fault("no request can be made of the URL")
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

// told reads the code and the words of JSON that tells of no success: "code", "error" and "message", or an object
// "error" that has these. A sink's reason is worth keeping, its whole answer is not.
func (a *answer) told() (code, words string) {
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

// reference reads the "id" that a sink gave its entry, "" where it gave none.
func reference(answer []byte) string {
	var told struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(answer, &told) // an answer without an ID is a good answer
	return told.ID
}

// A connection of HTTP/2 that has been silent for so long is asked for a sign of life, and left when none comes in
// time: before the tries of an effect are used up, and not because the other side is busy.
const silentFor, signOfLife = 5 * time.Second, 10 * time.Second

// maxAnswerHeader bounds the headers of an answer, in bytes. The 10 MB that net/http reads by itself would let a few
// sinks fill the worker's memory.
const maxAnswerHeader = 64 << 10

// NewHTTPClient returns the client for requests to systems of others. It follows no redirects: a request goes where
// the configuration says, and its body and key nowhere else. An answer with more than 64 KiB of headers is an error.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	// Enough idle connections for every effect in flight; the default of 2 per host reconnects.
	transport.MaxIdleConnsPerHost = 64
	transport.MaxIdleConns = 256
	// Over HTTP/2 all requests to a host share a connection, and a time-out ends the request alone. What has become
	// of a connection that a gateway has forgotten shows by a ping; the system would tell after a quarter of an hour.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: signOfLife}
	return &http.Client{
		Transport:     unswitched{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unswitched takes the body off a 101, an answer that nothing of ours asks for: that body is the connection
// itself, which no deadline of the request ends. Who reads it waits for as long as the other side likes, and
// holds one of the worker's places for effects meanwhile.
type unswitched struct{ *http.Transport }

func (u unswitched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}
