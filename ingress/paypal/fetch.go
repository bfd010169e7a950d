package paypal

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	// fetchWithin bounds one fetch, and the wait for another's.
	fetchWithin = 5 * time.Second
	// maxChain is the largest answer that is read; PayPal's chains have about 6 KB.
	maxChain = 64 << 10
	// maxFetched is how many certificates are held. PayPal uses one or two at a time.
	maxFetched = 16
	// Anyone may name a URL on PayPal's host: so many deliveries may ask for a new one, and no more. As many may ask
	// for one that was good before, so that strangers do not use up what PayPal's own deliveries need.
	fetchEvery, fetchBurst = 6 * time.Second, 5
	// recallEvery is how often the archive is read for a URL that is not held.
	recallEvery = 10 * time.Second
	// A URL that had nothing of PayPal's is not asked for again so soon; so many are remembered.
	refusedFor, maxRefused = 10 * time.Minute, 256
)

// FetchConfig is what [NewFetched] needs. Its zero value is right for production.
type FetchConfig struct {
	// Client fetches; nil means one of its own.
	Client *http.Client
	// Roots are the authorities that a chain must lead to; nil means the system's.
	Roots *x509.CertPool
	// Archive keeps what was fetched for other processes and for after a restart; nil keeps nothing. What it returns is
	// checked like what is fetched.
	Archive webhook.Archive
}

// Fetched is the store of certificates that PAYPAL-CERT-URL names, fetched from PayPal once for each
// URL. A certificate is trusted when it comes over https from PayPal's API host of the source's mode
// (see [CheckCertURL]), leads to a trusted root, and has the subject that PayPal signs messages under.
// It is safe for concurrent use.
type Fetched struct {
	client  *http.Client
	roots   *x509.CertPool
	mode    webhook.Mode
	archive webhook.Archive
	// strange bounds fetches of URLs that nobody knows, known those of URLs that were good before.
	strange, known *rate.Limiter

	fetching chan struct{} // holds the one that fetches

	recalling sync.Mutex
	recalled  time.Time // when the archive was read

	mu      sync.RWMutex
	held    map[string]*x509.Certificate
	good    map[string]bool    // by URL: it has led to a certificate, here or in another process
	refused map[string]refusal // by URL
}

// refusal is why the certificate of a URL is not trusted.
type refusal struct {
	err   error
	until time.Time
}

// NewFetched returns a store for a source of the given mode: a live one takes no certificate of the
// sandbox, nor the other way round. It takes both when mode is empty.
func NewFetched(cfg FetchConfig, mode webhook.Mode) *Fetched {
	if cfg.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxResponseHeaderBytes = maxChain
		cfg.Client = &http.Client{Transport: transport}
	}
	client := *cfg.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Fetched{
		client: &client, roots: cfg.Roots, mode: mode, archive: cfg.Archive,
		strange: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst), known: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst),
		fetching: make(chan struct{}, 1), held: map[string]*x509.Certificate{}, good: map[string]bool{}, refused: map[string]refusal{},
	}
}

// Match implements [CertificateStore]. It answers from memory.
func (f *Fetched) Match(certURL string, _ time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error) {
	leaf := f.get(certURL)
	if leaf == nil {
		return webhook.Match{}, webhook.Errorf(webhook.UntrustedCert, "the certificate of PAYPAL-CERT-URL has not been fetched")
	}
	if !admits(leaf) {
		return webhook.Match{}, webhook.Errorf(webhook.NoMatchingSignature, "the signature does not fit the certificate of PAYPAL-CERT-URL")
	}
	return webhook.Match{Secret: "certificate " + leaf.SerialNumber.Text(16)}, nil
}

// Prepare gets the certificate of certURL, which has passed [CheckCertURL], unless it is held and valid: from the
// archive, or from PayPal where mayAsk lets it ask for a URL that was never good. An error of class
// [webhook.UntrustedCert] says that what is there was not PayPal's at the time; any other error, that nobody can know
// now.
func (f *Fetched) Prepare(ctx context.Context, certURL string, at time.Time, mayAsk func() bool) error {
	if f.holds(certURL, at) {
		return nil
	}
	if err := f.belongs(certURL); err != nil {
		return err
	}
	if err := f.refusedAt(certURL, at); err != nil {
		return err
	}
	f.recall(ctx, at)
	if f.holds(certURL, at) {
		return nil
	}
	// Before the wait: strangers must not fill the server with requests that wait.
	budget := f.known
	if !f.wasGood(certURL) {
		budget = f.strange
		if !mayAsk() {
			return errors.New("fetch certificate: too many new PAYPAL-CERT-URLs from one address")
		}
	}
	if !budget.Allow() {
		return errors.New("fetch certificate: too many new PAYPAL-CERT-URLs at once")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	select {
	case f.fetching <- struct{}{}:
		defer func() { <-f.fetching }()
	case <-ctx.Done():
		return fmt.Errorf("fetch certificate: %w", ctx.Err())
	}
	if f.holds(certURL, at) {
		return nil // for another delivery, meanwhile
	}
	err := f.ask(ctx, certURL, at)
	if _, refused := webhook.ClassOf(err); refused && !f.wasGood(certURL) {
		f.remember(certURL, refusal{err, at.Add(refusedFor)})
	}
	return err
}

// ask fetches and keeps the certificate of certURL.
func (f *Fetched) ask(ctx context.Context, certURL string, at time.Time) error {
	chain, err := f.fetch(ctx, certURL)
	if err != nil {
		return err
	}
	leaf, err := f.trusted(chain, at)
	if err != nil {
		return webhook.Errorf(webhook.UntrustedCert, "the certificate of PAYPAL-CERT-URL: %v", err)
	}
	f.put(certURL, leaf)
	if f.archive != nil {
		f.archive.Save(ctx, certURL, chain)
	}
	return nil
}

// recall takes over what the archive holds. It is read seldom, as strangers can have it read.
func (f *Fetched) recall(ctx context.Context, at time.Time) {
	f.recalling.Lock()
	defer f.recalling.Unlock()
	if f.archive == nil || !f.recalled.IsZero() && at.Sub(f.recalled).Abs() < recallEvery {
		return
	}
	f.recalled = at
	for certURL, chain := range f.archive.Load(ctx) {
		if CheckCertURL(certURL) != nil || f.belongs(certURL) != nil {
			continue // another source's mode
		}
		f.mu.Lock()
		f.good[certURL] = true
		f.mu.Unlock()
		if leaf, err := f.trusted(chain, at); err == nil {
			f.put(certURL, leaf)
		}
	}
}

func (f *Fetched) wasGood(certURL string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.good[certURL]
}

func (f *Fetched) refusedAt(certURL string, at time.Time) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if r, ok := f.refused[certURL]; ok && at.Before(r.until) {
		return r.err
	}
	return nil
}

func (f *Fetched) remember(certURL string, r refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refused) >= maxRefused {
		clear(f.refused) // all are strangers', and asking for one again is bounded
	}
	f.refused[certURL] = r
}

func (f *Fetched) get(certURL string) *x509.Certificate {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.held[certURL]
}

// holds reports whether the certificate of certURL is held and valid at the time. One that has ended is asked
// for again: PayPal may have renewed it in its place, and what is held would refuse every delivery until a
// restart.
func (f *Fetched) holds(certURL string, at time.Time) bool {
	leaf := f.get(certURL)
	return leaf != nil && validAt(leaf, at)
}

func (f *Fetched) put(certURL string, leaf *x509.Certificate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other := range f.held {
		if len(f.held) < maxFetched {
			break
		}
		delete(f.held, other) // any: what is still in use is fetched again
	}
	f.held[certURL], f.good[certURL] = leaf, true
}

// belongs refuses what PayPal's own URLs never have, so that one certificate has one URL, and the
// sandbox's certificates on a live source.
func (f *Fetched) belongs(certURL string) error {
	u, err := url.Parse(certURL)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL has a query or a fragment")
	}
	sandbox := strings.Contains(u.Host, ".sandbox.")
	if f.mode == webhook.Live && sandbox || f.mode == webhook.Test && !sandbox {
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is on %s, and the source's mode is %s", u.Host, f.mode)
	}
	return nil
}

func (f *Fetched) fetch(ctx context.Context, certURL string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, certURL, nil)
	if err != nil {
		return nil, webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is no URL")
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch certificate: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, webhook.Errorf(webhook.UntrustedCert, "PayPal has no certificate at PAYPAL-CERT-URL: it answered %d", resp.StatusCode)
	default:
		return nil, fmt.Errorf("fetch certificate: %s answered %d", req.URL.Host, resp.StatusCode)
	}
	chain, err := io.ReadAll(io.LimitReader(resp.Body, maxChain+1))
	if err != nil {
		return nil, fmt.Errorf("fetch certificate: %w", err)
	}
	if len(chain) > maxChain {
		return nil, webhook.Errorf(webhook.UntrustedCert, "the answer at PAYPAL-CERT-URL is larger than %d bytes", maxChain)
	}
	return chain, nil
}

// trusted returns the leaf of a chain in PEM, when it leads to a root and PayPal signs messages with it.
func (f *Fetched) trusted(chain []byte, at time.Time) (*x509.Certificate, error) {
	leaf, err := parseCertificate(string(chain))
	if err != nil {
		return nil, err
	}
	_, rest := pem.Decode(chain)
	between := x509.NewCertPool()
	between.AppendCertsFromPEM(rest)
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: f.roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return leaf, err
}
