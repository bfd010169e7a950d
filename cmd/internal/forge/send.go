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

// Target is the source that events are sent to.
type Target struct {
	// URL is where the request goes.
	URL string
	// SignedURL is the URL that the provider knows, for schemes that sign it; "" means URL.
	SignedURL string
	// Secret is what the provider signs with.
	Secret  string
	Options map[string]string
	Sign    func(webhook.SignInput) (webhook.SignOutput, error)
}

// Result is what came of one delivery.
type Result struct {
	EventID string
	Type    string
	// Status is the HTTP status; 0 when there was no answer, and Err says why.
	Status int
	Err    error
	Took   time.Duration
}

// OK reports whether the delivery was taken.
func (r Result) OK() bool { return r.Err == nil && r.Status/100 == 2 }

// Outcome is the status as a word: "202", or "error" without an answer.
func (r Result) Outcome() string {
	if r.Err != nil {
		return "error"
	}
	return strconv.Itoa(r.Status)
}

// Request returns one delivery of e, signed now. Each call gives a fresh signature, as a provider
// that tries again does.
func (t Target) Request(ctx context.Context, e Event, now time.Time) (*http.Request, error) {
	signed := cmp.Or(t.SignedURL, t.URL)
	out, err := t.Sign(webhook.SignInput{
		Secret: t.Secret, At: now, ID: e.ID, Type: e.Type, Account: e.Account, URL: signed,
		ContentType: e.ContentType, Body: e.Body, Options: t.Options,
	})
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", e.ID, err)
	}
	// A provider calls the URL that it was given, with the query that stands there and what its scheme
	// puts in: the receiver verifies the query that came.
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

// Identify returns the ID that the receiver will know e under: for providers without event IDs,
// and for those that make it from several fields, it is not the ID that e was made with. It is
// e.ID where the verifier reads none.
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

// withQueryOf returns to with the query of from, and as it is where from has none.
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

// Send delivers each event 1 + duplicates times, with up to concurrency requests at once; the
// copies of one event go out together. report is called for each delivery, one at a time, in the
// order of the answers. An error means that a delivery could not be made; a refusal is a Result.
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
	if ctx.Err() != nil { // the others have been told why
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
	_, _ = io.Copy(io.Discard, resp.Body) // the connection is used again; the status is the answer
	_ = resp.Body.Close()
	result.Status, result.Took = resp.StatusCode, time.Since(start)
	return result, nil
}
