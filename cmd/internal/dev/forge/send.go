package forge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Target is the destination of events.
type Target struct {
	// URL is the URL of the request.
	URL string
	// SignedURL is the URL registered with the provider, for schemes that sign it; "" means URL.
	SignedURL string
	// Secret is the provider's signing key.
	Secret  string
	Options map[string]string
	Sign    func(webhook.SignInput) (webhook.SignOutput, error)
}

// Result is the result of one delivery.
type Result struct {
	EventID string
	Type    string
	// Status is the HTTP status. It is 0 if there was no answer; Err is then the reason.
	Status int
	Err    error
	Took   time.Duration
}

// OK reports whether the delivery was accepted.
func (r Result) OK() bool { return r.Err == nil && r.Status/100 == 2 }

// Outcome returns the status as a word: "202", or "error" without an answer.
func (r Result) Outcome() string {
	if r.Err != nil {
		return "error"
	}
	return strconv.Itoa(r.Status)
}

// Request returns one delivery of e, signed now. Each call makes a new signature, like a provider's retry.
func (t Target) Request(ctx context.Context, e Event, now time.Time) (*http.Request, error) {
	signed := cmp.Or(t.SignedURL, t.URL)
	out, err := t.Sign(webhook.SignInput{
		Secret: t.Secret, At: now, ID: e.ID, Type: e.Type, Account: e.Account, URL: signed,
		ContentType: e.ContentType, Body: e.Body, Options: t.Options,
	})
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", e.ID, err)
	}
	// A provider calls the registered URL with its query and the parameters that the scheme adds. The receiver verifies
	// the query of the request.
	to, err := withQueryOf(t.URL, out.URL)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(out.Body))
	if err != nil {
		return nil, err
	}
	req.Header = out.Header
	return req, nil
}

// Identify returns the ID of e at the receiver. It differs from e.ID for providers without event IDs, and for providers
// that combine several fields. It is e.ID if the verifier returns no ID.
func (t Target) Identify(ctx context.Context, v webhook.Verifier, e Event) (string, error) {
	req, err := t.Request(ctx, e, time.Now())
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return "", err
	}
	events := v.Events(&webhook.Request{Method: req.Method, URL: req.URL.String(), Header: req.Header, Body: body,
		ReceivedAt: time.Now()})
	if len(events) == 0 || events[0].ID == "" {
		return e.ID, nil
	}
	return events[0].ID, nil
}

// withQueryOf returns to with the query of from, or unchanged if from has no query.
func withQueryOf(to, from string) (string, error) {
	signed, err := url.Parse(from)
	if err != nil {
		return "", err
	}
	if signed.RawQuery == "" {
		return to, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	u.RawQuery = signed.RawQuery
	return u.String(), nil
}

// maxAnswerHeader bounds the headers of an answer, in bytes.
const maxAnswerHeader = 64 << 10

// Send delivers each event 1 + duplicates times, with up to concurrency requests at once. The copies of one event are
// sent together. It calls report for each delivery, one at a time, in the order of the answers. An error means that a
// delivery could not be made; a rejection is a Result.
func (t Target) Send(ctx context.Context, events []Event, duplicates, concurrency int, report func(Result)) error {
	client := &http.Client{
		Timeout: 30 * time.Second, // longer than any provider waits
		Transport: &http.Transport{
			MaxIdleConnsPerHost: concurrency, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxAnswerHeader,
		},
		// Providers do not follow redirects, and the signature is for one URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	var mu sync.Mutex // guards report
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for _, e := range events {
		for range 1 + duplicates {
			group.Go(func() error {
				r, err := t.deliver(ctx, client, e)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				report(r)
				return nil
			})
		}
	}
	return group.Wait()
}

func (t Target) deliver(ctx context.Context, client *http.Client, e Event) (Result, error) {
	if ctx.Err() != nil { // the error has been reported
		return Result{}, ctx.Err()
	}
	req, err := t.Request(ctx, e, time.Now())
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	result := Result{EventID: e.ID, Type: e.Type}
	resp, err := client.Do(req)
	if err != nil {
		result.Err = err
		return result, ctx.Err()
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be reused; the body is ignored
	_ = resp.Body.Close()
	result.Status, result.Took = resp.StatusCode, time.Since(start)
	return result, nil
}
