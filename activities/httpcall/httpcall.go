// Package httpcall sends HTTP requests to outside systems. Its client follows no redirects and limits the size of
// responses. Its errors contain no path, query or credential.
package httpcall

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
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// maxAnswer is the maximum number of bytes that are read from a response body.
const maxAnswer = 64 << 10

// Header returns the headers of a JSON request, with an idempotency key and a bearer token unless they are "".
//
// The name of the key header is not in canonical form. With the canonical form, net/http would silently repeat a
// request that got no response, and pawl could not count the requests.
func Header(key, token string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	if key != "" {
		header["idempotency-key"] = []string{key}
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return header
}

// Response is a response with its body, which is read up to maxAnswer.
type Response struct {
	*http.Response
	// Content is the body, at most maxAnswer bytes of it.
	Content []byte
}

// Do makes one request. It returns a nil response if the server sent no response. If it returns both a response and an
// error, the body is incomplete. After a connection was established, a failure is unanswered, because a part of the
// request may have been sent. The error contains only the host, because path and query may contain tokens, and errors
// are stored, logged and shown in Temporal.
func Do(ctx context.Context, client *http.Client, method, to string, header http.Header, body []byte) (
	got *Response, err error) {
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
		got = &Response{Response: resp}
		got.Content, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		err = effect.Broken(req.URL.Host, connected.Load(), err)
	}
	return got, err
}

// Problem returns the code and the message of a JSON error response: "code", "error" and "message", or an object
// "error" with these fields. Only these are stored, not the whole body.
func (r *Response) Problem() (code, words string) {
	if r.StatusCode < 300 || !strings.Contains(r.Header.Get("Content-Type"), "json") {
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
	// A field of another type is read as "".
	_ = json.Unmarshal(r.Content, &top)
	_ = json.Unmarshal(top.Error, &nested)
	_ = json.Unmarshal(top.Error, &plain)
	text := func(v any) string { s, _ := v.(string); return s }
	return cmp.Or(text(top.Code), text(nested.Code)), cmp.Or(plain, text(nested.Message), text(top.Message))
}

// An HTTP/2 connection without traffic for silentFor is pinged, and closed if there is no response within signOfLife.
// These times are short enough for the retries of an effect, and long enough for a busy server.
const silentFor, signOfLife = 5 * time.Second, 10 * time.Second

// maxAnswerHeader limits the response headers in bytes. The default of net/http, 10 MB, would allow a few sinks to
// fill the worker's memory.
const maxAnswerHeader = 64 << 10

// NewClient returns the client for requests to outside systems. It does not follow redirects, so a request with
// its body and key is sent only to the configured URL. A response with more than 64 KiB of headers is an error.
func NewClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	// Allow an idle connection for every effect in flight. With the default of 2 per host, most effects would need a
	// new connection.
	transport.MaxIdleConnsPerHost = 64
	transport.MaxIdleConns = 256
	// With HTTP/2 all requests to a host share a connection, and a timeout ends only the request. A ping detects a
	// connection that a gateway has dropped. TCP alone would need a quarter of an hour.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: signOfLife}
	return &http.Client{
		Transport:     unswitched{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unswitched removes the body of a 101 response, which pawl never requests. That body is the connection itself and
// ignores the deadline of the request, so the server could block a reader forever.
type unswitched struct{ *http.Transport }

func (u unswitched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

// HeaderText returns s if it is a valid header value, and the percent-encoded s otherwise. IDs and types come from
// outside systems and may contain any byte.
func HeaderText(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '%' {
			return url.PathEscape(s)
		}
	}
	return s
}
