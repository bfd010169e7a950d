package paypal_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/paypal"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	liveURL    = "https://api.paypal.com/v1/notifications/certs/CERT-1"
	sandboxURL = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1"
)

// authority issues certificates through one intermediate, like PayPal's.
type authority struct {
	roots      *x509.CertPool
	between    *x509.Certificate
	key        *ecdsa.PrivateKey
	betweenPEM []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{roots: x509.NewCertPool(), key: key}
	ca := func(name string, parent *x509.Certificate) *x509.Certificate {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: at.AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(5, 0, 0), KeyUsage: x509.KeyUsageCertSign,
		}
		if parent == nil {
			parent = template
		}
		return issue(t, template, parent, &key.PublicKey, key)
	}
	root := ca("root", nil)
	a.roots.AddCert(root)
	a.between = ca("between", root)
	a.betweenPEM = encode(a.between)
	return a
}

func issue(t *testing.T, template, parent *x509.Certificate, public, signer any) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// leaf issues a certificate for the key of signed.
func (a *authority) leaf(t *testing.T, subject string, notAfter time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode([]byte(keys()[0].Sign))
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return encode(issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(0x0badc0de), Subject: pkix.Name{CommonName: subject},
		NotBefore: at.AddDate(0, -1, 0), NotAfter: notAfter,
	}, a.between, &private.(*rsa.PrivateKey).PublicKey, a.key))
}

// host simulates PayPal's API hosts: every name resolves to it.
type host struct {
	*httptest.Server
	client *http.Client
	asked  atomic.Int32
}

func newHost(t *testing.T, answer http.HandlerFunc) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		answer(w, r)
	}))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"api.paypal.com", "api.sandbox.paypal.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	c := issue(t, template, template, &key.PublicKey, key)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}}
	h.StartTLS()
	t.Cleanup(h.Close)
	trust := x509.NewCertPool()
	trust.AddCert(c)
	h.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trust},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, h.Listener.Addr().String())
		},
	}}
	return h
}

func serve(content ...[]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Join(content, nil)) }
}

// fetching is a verifier that fetches certificates from h and trusts a.
func fetching(t *testing.T, h *host, a *authority, mode webhook.Mode) webhook.Verifier {
	t.Helper()
	v, err := paypal.New(webhook.Settings{Source: "pay", Options: options},
		paypal.NewFetched(paypal.FetchConfig{Client: h.client, Roots: a.roots}, mode))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signedFor(t *testing.T, certURL string) *webhook.Request {
	t.Helper()
	r := signed(t, at)
	r.Header.Set("PAYPAL-CERT-URL", certURL)
	return r
}

const liveSubject = "messageverificationcerts.paypal.com"

func TestFetched_CertificateFetchedOnce(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h := newHost(t, serve(a.leaf(t, liveSubject, at.AddDate(1, 0, 0)), a.betweenPEM))
	v := fetching(t, h, a, webhook.Live)
	m, err := v.Verify(signedFor(t, liveURL))
	if err != nil || m.Secret != "certificate badc0de" {
		t.Errorf("got %+v, %v; want the certificate's serial number", m, err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := v.Verify(signedFor(t, liveURL)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	forged := signedFor(t, liveURL)
	forged.Body = []byte(strings.Replace(body, "cap-1", "cap-2", 1))
	if _, err := v.Verify(forged); !is(err, webhook.NoMatchingSignature) {
		t.Errorf("another body: got %v", err)
	}
	if n := h.asked.Load(); n != 1 {
		t.Errorf("fetched %d times, want once", n)
	}
}

func is(err error, class webhook.Class) bool {
	got, ok := webhook.ClassOf(err)
	return ok && got == class
}

func TestFetched_NotTrusted(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	later := at.AddDate(1, 0, 0)
	good := a.leaf(t, liveSubject, later)
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example/", http.StatusFound)
	}
	for name, c := range map[string]struct {
		url     string
		answer  http.HandlerFunc
		refused bool // false: the failure is temporary
	}{
		"another root":       {liveURL, serve(stranger.leaf(t, liveSubject, later), stranger.betweenPEM), true},
		"no intermediate":    {liveURL, serve(good), true},
		"self-signed":        {liveURL, serve([]byte(newKey(liveSubject, 2048).Verify)), true},
		"another's subject":  {liveURL, serve(a.leaf(t, "www.example.com", later), a.betweenPEM), true},
		"ended":              {liveURL, serve(a.leaf(t, liveSubject, at.Add(-time.Second)), a.betweenPEM), true},
		"no certificate":     {liveURL, serve([]byte("<html>")), true},
		"much too large":     {liveURL, serve(good, bytes.Repeat([]byte("\n"), 1<<20)), true},
		"not there":          {liveURL, http.NotFound, true},
		"a query":            {liveURL + "?x=1", serve(good, a.betweenPEM), true},
		"of the sandbox":     {sandboxURL, serve(good, a.betweenPEM), true},
		"a redirect":         {liveURL, redirect, false},
		"PayPal has trouble": {liveURL, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, false},
		"the line is cut":    {liveURL, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.answer)
			_, err := fetching(t, h, a, webhook.Live).Verify(signedFor(t, c.url))
			if _, refused := webhook.ClassOf(err); err == nil || refused != c.refused || refused && !is(err, webhook.UntrustedCert) {
				t.Errorf("got %v, want a refusal: %t", err, c.refused)
			}
		})
	}
}

// A temporary failure is retried. A request that would be rejected under any certificate causes no request to PayPal.
func TestFetched_Asks(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	leaf := a.leaf(t, liveSubject, at.AddDate(1, 0, 0))
	var down atomic.Bool
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		serve(leaf, a.betweenPEM)(w, r)
	})
	v := fetching(t, h, a, "")
	if _, err := v.Verify(signedFor(t, "https://evil.example/v1/notifications/certs/a")); !is(err, webhook.UntrustedCert) {
		t.Errorf("another host: got %v", err)
	}
	unsigned := signedFor(t, liveURL)
	unsigned.Header.Del("PAYPAL-TRANSMISSION-SIG")
	if _, err := v.Verify(unsigned); !is(err, webhook.MissingHeader) {
		t.Errorf("no signature: got %v", err)
	}
	if n := h.asked.Load(); n != 0 {
		t.Errorf("asked %d times, want never", n)
	}
	down.Store(true)
	if _, err := v.Verify(signedFor(t, liveURL)); err == nil {
		t.Error("admitted without a certificate")
	}
	down.Store(false)
	if _, err := v.Verify(signedFor(t, liveURL)); err != nil {
		t.Errorf("after the trouble: %v", err)
	}
	stale := signedFor(t, liveURL)
	stale.ReceivedAt = at.Add(time.Hour)
	if _, err := v.Verify(stale); !is(err, webhook.TimestampTooOld) {
		t.Errorf("stale: got %v", err)
	}
}

// If PayPal renews a certificate under the same URL, the store fetches it again after the cached certificate has
// expired.
func TestFetched_Ended_FetchedAgain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	old, renewed := a.leaf(t, liveSubject, at.Add(time.Minute)), a.leaf(t, liveSubject, at.AddDate(1, 0, 0))
	var later atomic.Bool
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if later.Load() {
			serve(renewed, a.betweenPEM)(w, r)
			return
		}
		serve(old, a.betweenPEM)(w, r)
	})
	v := fetching(t, h, a, webhook.Live)
	if _, err := v.Verify(signedFor(t, liveURL)); err != nil {
		t.Fatal(err)
	}
	next := signedFor(t, liveURL)
	next.ReceivedAt = at.Add(2 * time.Minute)
	if _, err := v.Verify(next); !is(err, webhook.UntrustedCert) {
		t.Errorf("before PayPal has renewed it: got %v, want a refusal", err)
	}
	later.Store(true)
	for range 2 {
		if _, err := v.Verify(next); err != nil {
			t.Errorf("renewed: %v", err)
		}
	}
	if n := h.asked.Load(); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

// An attacker who sends many different URLs must neither cause a request to PayPal for each URL nor prevent the use
// of the cached certificate. A request that exceeds the budget gets a 503 and not a rejection, so PayPal repeats it.
func TestFetched_ManyURLs_Bounded(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	leaf := a.leaf(t, liveSubject, at.AddDate(1, 0, 0))
	h := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != strings.TrimPrefix(liveURL, "https://api.paypal.com") {
			http.NotFound(w, r)
			return
		}
		serve(leaf, a.betweenPEM)(w, r)
	})
	v := fetching(t, h, a, webhook.Live)
	if _, err := v.Verify(signedFor(t, liveURL)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		_, err := v.Verify(signedFor(t, liveURL+strings.Repeat("x", i+1)))
		if _, refused := webhook.ClassOf(err); err == nil || refused && i > 20 {
			t.Fatalf("URL %d: got %v", i, err)
		}
	}
	if n := h.asked.Load(); n > 11 {
		t.Errorf("asked %d times, want ten and perhaps one more", n)
	}
	if _, err := v.Verify(signedFor(t, liveURL)); err != nil {
		t.Errorf("the certificate that is held: %v", err)
	}
}

// PayPal's host may serve any number of certificates: the cache is limited, and an evicted certificate is fetched
// again.
func TestFetched_ManyCertificates_FewHeld(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h := newHost(t, serve(a.leaf(t, liveSubject, at.AddDate(1, 0, 0)), a.betweenPEM))
	v := fetching(t, h, a, webhook.Live)
	for i := range 9 {
		if _, err := v.Verify(signedFor(t, liveURL+strings.Repeat("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.Verify(signedFor(t, liveURL+"xxxxxxxx")); err != nil || h.asked.Load() != 9 {
		t.Errorf("the newest: %v after %d fetches, want none and 9", err, h.asked.Load())
	}
	if _, err := v.Verify(signedFor(t, liveURL)); err != nil || h.asked.Load() != 10 {
		t.Errorf("the first: %v after %d fetches, want none and 10", err, h.asked.Load())
	}
}

func TestFetched_Offline_FetchesNothing(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h := newHost(t, serve(a.leaf(t, liveSubject, at.AddDate(1, 0, 0)), a.betweenPEM))
	store := paypal.NewFetched(paypal.FetchConfig{Client: h.client, Roots: a.roots, Offline: true}, webhook.Live)
	v, err := paypal.New(webhook.Settings{Source: "pay", Options: options}, store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(signedFor(t, liveURL)); err == nil || h.asked.Load() != 0 {
		t.Errorf("got %v after %d fetches, want an error after none", err, h.asked.Load())
	}
}

func TestNew_Fetch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		certificates, secret string
		ok                   bool
	}{
		"fetched":                   {"fetch", "", true},
		"fetched, and a secret too": {"fetch", keys()[0].Verify, false},
		"misspelt":                  {"fetched", "", false},
		"neither":                   {"", "", false},
	} {
		s := webhook.Settings{Source: "pay", Options: map[string]string{"webhook_id": "W1", "certificates": c.certificates}}
		if c.secret != "" {
			s.Secrets = []webhook.Secret{{Label: "a", Value: c.secret}}
		}
		_, err := paypal.Provider.New(s)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "source pay") {
			t.Errorf("%s: got %v, want accepted=%t", name, err, c.ok)
		}
	}
}
