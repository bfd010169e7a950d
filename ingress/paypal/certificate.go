package paypal

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// CertificateStore holds the certificates that PayPal may have signed with: [Fetched], or those that are
// configured.
type CertificateStore interface {
	// Match returns the label of the first certificate in use at the time that admits the
	// request, or a refusal. url is the request's PAYPAL-CERT-URL, which has passed [CheckCertURL].
	Match(url string, at time.Time, admits func(*x509.Certificate) bool) (webhook.Match, error)
}

// newStore returns the store that the settings ask for.
func newStore(s webhook.Settings) (CertificateStore, error) {
	switch from := s.Options[certificatesOption]; {
	case from == "":
		return newConfigured(s)
	case from != fetch:
		return nil, fmt.Errorf("source %s: options.%s: %q is not known; write %s, or leave it out and configure the certificate", s.Source, certificatesOption, from, fetch)
	case len(s.Secrets) > 0 || s.Options[certificateOption] != "":
		return nil, fmt.Errorf("source %s: options.%s: %s, and a certificate is configured too; remove one of them", s.Source, certificatesOption, fetch)
	}
	return NewFetched(FetchConfig{Offline: s.Offline}, s.Mode), nil
}

// configured is the store of a source's own certificates. It does not look at the URL.
type configured struct {
	keys *webhook.Keyring[*x509.Certificate]
}

func newConfigured(s webhook.Settings) (configured, error) {
	if text := s.Options[certificateOption]; text != "" {
		s.Secrets = append(slices.Clone(s.Secrets), webhook.Secret{Label: certificateOption, Value: text})
	}
	if len(s.Secrets) == 0 {
		return configured{}, fmt.Errorf("source %s: there is no certificate; set options.%s: %s to have PayPal's fetched, or give one as a secret",
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

// certPath is where PayPal keeps its certificates (/v1/notifications/certs/…, and
// /v1/notifications/test in the sandbox of the first years).
const certPath = "/v1/notifications/"

// maxCertURL is the longest PAYPAL-CERT-URL; PayPal's have about 90 bytes.
const maxCertURL = 500

// CheckCertURL reports, as an error of class [webhook.UntrustedCert], why text cannot be the URL
// of a PayPal certificate: not https, another host or port, credentials, a path outside of PayPal's notifications, or
// a query or fragment, so that one certificate has one URL. The header that it comes from is not signed, so whoever may
// choose the URL chooses the key; the check stands before every use of it, fetching or not.
func CheckCertURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, len(text) > maxCertURL:
		return webhook.Errorf(webhook.UntrustedCert, "PAYPAL-CERT-URL is no URL")
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

// parseCertificate reads the leaf certificate, the first of text, and checks that it is one that
// PayPal signs messages with. The configuration is trusted: a self-signed certificate
// with PayPal's subject is taken, an authentic one of another service is not. The error about a
// certificate that can be read and is not PayPal's has class [webhook.UntrustedCert].
func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is no CERTIFICATE in PEM; download the file that PAYPAL-CERT-URL of a delivery names, from PayPal")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < 2048 {
		return nil, webhook.Errorf(webhook.UntrustedCert,
			"its key is not RSA of at least 2048 bits; it is not PayPal's")
	}
	if !certSubject.MatchString(leaf.Subject.CommonName) {
		return nil, webhook.Errorf(webhook.UntrustedCert, "its subject is %q, not messageverificationcerts(.sandbox).paypal.com; it is not the one that PayPal signs messages with", leaf.Subject.CommonName)
	}
	return leaf, nil
}
