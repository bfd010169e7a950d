package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
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
	Client *http.Client
}

// maxAnswer bounds what is read of an answer: a sink's answer is a few fields.
const maxAnswer = 64 << 10

// send makes one request of an attempt: the attempt's key, the attempt's bytes. It returns the
// answer's body for 2xx and a classified failure otherwise. A lost answer is a transient failure: the
// key makes the repeat safe.
func (s *Sink) send(ctx context.Context, method, path string, a *effect.Attempt) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(a.Request))
	if err != nil {
		return nil, effect.Refuse("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	// Not by Set: net/http looks for the canonical name and, where it stands, silently sends again what was
	// not answered. How often an effect was sent, and that nobody answered, is for the ledger to know.
	req.Header["idempotency-key"] = []string{a.IdempotencyKey}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := call(s.Client, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if failure := effect.FromStatus(resp, refusalDetail(resp, answer), time.Now()); failure != nil {
		if resp.StatusCode < 400 {
			// A redirect is no decision of the sink's about this request, only a URL that has to be mended: a
			// refusal of provisioning would take back what the customer has paid for.
			failure = &effect.Failure{Class: ledger.Transient, Err: failure}
		}
		return nil, failure
	}
	if err != nil {
		return nil, &effect.Failure{Class: ledger.Transient, Unanswered: true, Err: fmt.Errorf("read answer: %w", err)}
	}
	return answer, nil
}

// call makes a request of an effect. What it fails with counts as unanswered where anything of the request may
// have gone out. That is once there is a connection: a host that cannot be reached, or whose certificate is not
// trusted, has been told nothing. The error names the host alone: a path and a query may hold tokens, and what it
// says is stored, logged and shown in Temporal.
func call(client *http.Client, req *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", req.URL.Host, failed.Err)
	}
	if err != nil {
		return nil, &effect.Failure{Class: ledger.Transient, Unanswered: connected.Load(), Err: err}
	}
	return resp, nil
}

// refusalDetail returns the "error" or "message" of a JSON answer: a sink's reason belongs on the
// receipt, its whole answer does not.
func refusalDetail(resp *http.Response, answer []byte) string {
	if resp.StatusCode < 300 || !strings.Contains(resp.Header.Get("Content-Type"), "json") {
		return ""
	}
	var told struct{ Error, Message string }
	if json.Unmarshal(answer, &told) != nil {
		return ""
	}
	return cmp.Or(told.Error, told.Message)
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

// NewHTTPClient returns the client for outgoing effects. It follows no redirects: an effect goes where
// configuration says, and its body and key nowhere else.
func NewHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
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

// timestamp writes a time for sinks, as RFC 3339; "" for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
