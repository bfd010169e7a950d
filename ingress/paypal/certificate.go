package paypal

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// CertificateStore holds the certificates that PayPal may have signed with: [Fetched] or configured ones.
type CertificateStore interface {
	// Match calls admits with the certificates that are valid at the given time, and returns the first for which admits
	// returns true. Otherwise it returns a rejection. url is the header PAYPAL-CERT-URL of the request; the caller has
	// checked it with [CheckCertURL].
	Match(url string, at time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error)
}

// newStore returns the store that the settings select.
func newStore(s webhook.Settings) (CertificateStore, error) {
	switch from := s.Options[certificatesOption]; {
	case from == "":
		return newConfigured(s)
	case from != fetch:
		return nil, fmt.Errorf("source %s: options.%s: %q is not known; set it to %s, or remove it and configure the certificate", s.Source, certificatesOption, from, fetch)
	case len(s.Secrets) > 0 || s.Options[certificateOption] != "":
		return nil, fmt.Errorf("source %s: options.%s: %s, and a certificate is configured as well; remove one of them", s.Source, certificatesOption, fetch)
	}
	return NewFetched(FetchConfig{Offline: s.Offline}, s.Mode), nil
}

// configured is a store with the certificates in the configuration of a source. It ignores the URL.
type configured struct {
	keys *webhook.Keyring[*x509.Certificate]
}

func newConfigured(s webhook.Settings) (configured, error) {
	if text := s.Options[certificateOption]; text != "" {
		s.Secrets = append(slices.Clone(s.Secrets), webhook.Secret{Label: certificateOption, Value: text})
	}
	if len(s.Secrets) == 0 {
		return configured{}, fmt.Errorf("source %s: there is no certificate; set options.%s: %s to fetch PayPal's, or configure one as a secret",
			s.Source, certificatesOption, fetch)
	}
	keys, err := webhook.NewKeyring(s, parseCertificate)
	return configured{keys}, err
}

func (c configured) Match(_ string, at time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error) {
	return c.keys.Match(at, admits)
}

var (
	certHost    = regexp.MustCompile(`^api(-m)?(\.sandbox)?\.paypal\.com$`)
	certSubject = regexp.MustCompile(`^messageverificationcerts(\.sandbox)?\.paypal\.com$`)
)

// certPath is the common prefix of the paths of PayPal's certificates: /v1/notifications/certs/…, or
// /v1/notifications/test in early sandboxes.
const certPath = "/v1/notifications/"

// maxCertURL is the maximum length of PAYPAL-CERT-URL. PayPal sends about 90 bytes.
const maxCertURL = 500

// CheckCertURL returns an error of class [webhook.UntrustedCert] unless text can be the URL of a PayPal certificate.
// The URL must have the scheme https, a PayPal API host without a port, and a path below certPath. It must have no
// credentials, query or fragment. Call CheckCertURL before every use of the URL: it comes from an unsigned header and
// determines the key.
func CheckCertURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, len(text) > maxCertURL:
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is not a URL")
	case u.Scheme != "https":
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is not https")
	case u.User != nil || !certHost.MatchString(u.Host):
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is not on a PayPal API host")
	case !strings.HasPrefix(u.EscapedPath(), certPath) || strings.Contains(u.Path, ".."):
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is not below %s", certPath)
	case u.RawQuery != "" || u.Fragment != "":
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL has a query or a fragment")
	}
	return nil
}

func validAt(c *x509.Certificate, at time.Time) bool {
	return !at.Before(c.NotBefore) && !at.After(c.NotAfter)
}

// parseCertificate parses the first certificate in text, the leaf. It checks the subject and the key of the
// certificate, but not its chain: it trusts a certificate that the operator configured. If the subject or the key is
// not PayPal's, the error has class [webhook.UntrustedCert].
func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is not a CERTIFICATE in PEM; download the certificate from the URL in the header PAYPAL-CERT-URL of a delivery")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < 2048 {
		return nil, webhook.Errorf(webhook.UntrustedCert,
			"its key is not RSA of at least 2048 bits; the certificate is not PayPal's")
	}
	if !certSubject.MatchString(leaf.Subject.CommonName) {
		return nil, webhook.Errorf(webhook.UntrustedCert, "its subject is %q, not messageverificationcerts(.sandbox).paypal.com; PayPal does not sign messages with it", leaf.Subject.CommonName)
	}
	return leaf, nil
}

const (
	// fetchWithin is the timeout of one fetch. A delivery waits at most this long for its certificate.
	fetchWithin = 5 * time.Second
	// fetchesPerMinute is the maximum number of fetches per minute, because any sender can name a new URL on PayPal's
	// host.
	fetchesPerMinute = 10
	// maxChain is the maximum size of a certificate chain in bytes. PayPal's chains have about 6 KB.
	maxChain = 64 << 10
	// maxHeld is the maximum number of cached certificates. PayPal uses one or two at a time.
	maxHeld = 8
)

// FetchConfig configures [NewFetched]. Production uses the zero value.
type FetchConfig struct {
	// Client sends the requests. nil means a default client.
	Client *http.Client
	// Roots are the trusted root certificates. nil means the roots of the system.
	Roots *x509.CertPool
	// Offline disables fetching.
	Offline bool
}

// Fetched fetches the certificates that PAYPAL-CERT-URL names, and caches them. It trusts a certificate only if three
// conditions hold. It came over https from the API host of the source's mode (see [CheckCertURL]); its chain leads to a
// trusted root; and it has the subject of PayPal's signing certificates. Fetched is safe for concurrent use.
//
// An attacker can use up the fetches of a minute. If the certificate of an authentic delivery is not in the cache, the
// delivery then gets 503, and PayPal retries it for three days. The certificate is missing from the cache only after a
// restart, or after PayPal changed its certificate.
type Fetched struct {
	client *http.Client
	roots  *x509.CertPool
	mode   webhook.Mode
	budget *rate.Limiter
	held   *lru.Cache[string, *x509.Certificate] // by URL
}

// NewFetched returns an empty cache for a source of the given mode. A live source rejects certificates of the sandbox,
// and the reverse. An empty mode accepts both.
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
	held, _ := lru.New[string, *x509.Certificate](maxHeld) // returns an error only if the size is not positive
	return &Fetched{client: &client, roots: cfg.Roots, mode: mode, budget: budget, held: held}
}

// Match implements [CertificateStore]. It fetches the certificate unless a valid one is in the cache.
func (f *Fetched) Match(certURL string, at time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error) {
	u, err := url.Parse(certURL)
	if err != nil {
		return webhook.Refuse(webhook.UntrustedCert, "PAYPAL-CERT-URL is not a URL")
	}
	sandbox := strings.Contains(u.Host, ".sandbox.")
	if f.mode == webhook.Live && sandbox || f.mode == webhook.Test && !sandbox {
		return webhook.Refuse(webhook.UntrustedCert, "PAYPAL-CERT-URL is on %s, and the source's mode is %s", u.Host,
			f.mode)
	}
	leaf, held := f.held.Get(certURL)
	if !held || !validAt(leaf, at) { // PayPal may have renewed an expired certificate
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

// fetch downloads the certificate of certURL and caches it. An error of class [webhook.UntrustedCert] means that
// certURL does not name a certificate of PayPal. Any other error means that the download failed.
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
		return nil, webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is not a URL")
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

// trusted parses a chain in PEM and returns its leaf. It returns an error if the chain does not lead to a root, or if
// the leaf is not a signing certificate of PayPal.
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
