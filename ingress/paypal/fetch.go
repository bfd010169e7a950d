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
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	// fetchWithin bounds one fetch, and so how long a delivery waits for its certificate.
	fetchWithin = 5 * time.Second
	// fetchesPerMinute bounds the fetches, since anybody can name a new URL on PayPal's host. It also bounds how many
	// deliveries wait for a fetch.
	fetchesPerMinute = 10
	// maxChain is the largest answer that is read; PayPal's chains have about 6 KB.
	maxChain = 64 << 10
	// maxHeld is how many certificates are kept. PayPal uses one or two at a time.
	maxHeld = 8
)

// FetchConfig is what [NewFetched] needs. Its zero value is right for production.
type FetchConfig struct {
	// Client fetches; nil means one of its own.
	Client *http.Client
	// Roots are the authorities that a chain must lead to; nil means the system's.
	Roots *x509.CertPool
	// Offline fetches nothing.
	Offline bool
}

// Fetched is a cache of the certificates that PAYPAL-CERT-URL names. A certificate is trusted when it comes over https
// from PayPal's API host of the source's mode (see [CheckCertURL]), leads to a trusted root, and has the subject that
// PayPal signs messages under. Nothing else enters the cache. It is safe for concurrent use.
//
// A stranger can use up the fetches of a minute. PayPal's deliveries then wait for the next one only while its
// certificate is not in the cache: after a restart, and when PayPal has changed it. PayPal retries for three days.
type Fetched struct {
	client *http.Client
	roots  *x509.CertPool
	mode   webhook.Mode
	budget *rate.Limiter
	held   *lru.Cache[string, *x509.Certificate] // by URL
}

// NewFetched returns an empty cache for a source of the given mode: a live one takes no certificate of the
// sandbox, nor the other way round. It takes both when mode is empty.
func NewFetched(cfg FetchConfig, mode webhook.Mode) *Fetched {
	if cfg.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxResponseHeaderBytes = maxChain
		cfg.Client = &http.Client{Transport: transport}
	}
	client := *cfg.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	budget := rate.NewLimiter(rate.Every(time.Minute/fetchesPerMinute), fetchesPerMinute)
	if cfg.Offline {
		budget = rate.NewLimiter(0, 0)
	}
	held, _ := lru.New[string, *x509.Certificate](maxHeld) // fails without a size only
	return &Fetched{client: &client, roots: cfg.Roots, mode: mode, budget: budget, held: held}
}

// Match implements [CertificateStore]. It fetches the certificate unless a valid one is in the cache.
func (f *Fetched) Match(certURL string, at time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error) {
	u, err := url.Parse(certURL)
	if err != nil {
		return webhook.Refuse(webhook.UntrustedCert, "PAYPAL-CERT-URL is no URL")
	}
	sandbox := strings.Contains(u.Host, ".sandbox.")
	if f.mode == webhook.Live && sandbox || f.mode == webhook.Test && !sandbox {
		return webhook.Refuse(webhook.UntrustedCert, "PAYPAL-CERT-URL is on %s, and the source's mode is %s", u.Host,
			f.mode)
	}
	leaf, held := f.held.Get(certURL)
	if !held || !validAt(leaf, at) { // PayPal may have renewed one that has ended
		if leaf, err = f.fetch(certURL, at); err != nil {
			return webhook.Match{}, err
		}
	}
	if !admits(leaf) {
		return webhook.Refuse(webhook.NoMatchingSignature,
			"the signature does not fit the certificate of PAYPAL-CERT-URL")
	}
	return webhook.Match{Secret: "certificate " + leaf.SerialNumber.Text(16)}, nil
}

// fetch gets the certificate of certURL from PayPal and keeps it. An error of class [webhook.UntrustedCert] says that
// PayPal has no such certificate; any other error says that nobody can know now.
func (f *Fetched) fetch(certURL string, at time.Time) (*x509.Certificate, error) {
	if !f.budget.Allow() {
		return nil, errors.New("fetch certificate: too many new PAYPAL-CERT-URLs in this minute")
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchWithin)
	defer cancel()
	chain, err := f.download(ctx, certURL)
	if err != nil {
		return nil, err
	}
	leaf, err := f.trusted(chain, at)
	if err != nil {
		return nil, webhook.Errorf(webhook.UntrustedCert, "the certificate of PAYPAL-CERT-URL: %v", err)
	}
	f.held.Add(certURL, leaf)
	return leaf, nil
}

func (f *Fetched) download(ctx context.Context, certURL string) ([]byte, error) {
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
		return nil, webhook.Errorf(webhook.UntrustedCert,
			"PayPal has no certificate at PAYPAL-CERT-URL: it answered %d", resp.StatusCode)
	default:
		return nil, fmt.Errorf("fetch certificate: %s answered %d", req.URL.Host, resp.StatusCode)
	}
	chain, err := io.ReadAll(io.LimitReader(resp.Body, maxChain+1))
	if err != nil {
		return nil, fmt.Errorf("fetch certificate: %w", err)
	}
	if len(chain) > maxChain {
		return nil, webhook.Errorf(webhook.UntrustedCert, "the answer at PAYPAL-CERT-URL is larger than %d bytes",
			maxChain)
	}
	return chain, nil
}

// trusted returns the leaf of a chain in PEM when it leads to a root and PayPal signs messages with it.
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
