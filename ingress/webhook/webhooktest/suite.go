package webhooktest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Key is one secret: the source is configured with Verify, and the provider signs with Sign. They differ if the scheme
// is asymmetric. An empty Sign means Verify.
type Key struct {
	Verify, Sign string
}

func (k Key) signing() string {
	if k.Sign == "" {
		return k.Verify
	}
	return k.Sign
}

// Suite describes a provider to the conformance suite.
type Suite struct {
	Provider webhook.Provider
	// Settings are the settings of the source, without secrets.
	Settings webhook.Settings
	// Keys are two different valid keys.
	Keys [2]Key
	// Input is a typical delivery. The suite sets its Secret, At and Options.
	Input webhook.SignInput
	// Sign signs Input; nil means Provider.Sign.
	Sign func(webhook.SignInput) (webhook.SignOutput, error)
	// Want is the event in Input. Only its non-zero fields are compared.
	Want webhook.Event

	// Headers are the required headers of the scheme.
	Headers []string
	// Signature is the header with the signature. Join combines several values of this header into one; it is nil if
	// the scheme has a single signature.
	Signature string
	Join      func(values ...string) string

	// BodyUnsigned marks schemes that do not sign the bytes of the body (a token, a list of fields). The suite then
	// does not expect a rejection of a changed body.
	BodyUnsigned bool
	// NoSecret marks schemes that verify without a configured secret (PayPal's certificates).
	NoSecret bool
}

// now is the receive time of all deliveries of the suite. It has a fraction to test rounding.
var now = time.Date(2026, 3, 1, 12, 0, 0, 700_000_000, time.UTC)

// tolerance is the clock tolerance of the source, or zero if the scheme has no signed time.
func (s Suite) tolerance() time.Duration {
	if s.Settings.Tolerance != 0 {
		return s.Settings.Tolerance
	}
	return s.Provider.Contract.Tolerance
}

func (s Suite) secret(i int) webhook.Secret {
	return webhook.Secret{Label: []string{"first", "second"}[i], Value: s.Keys[i].Verify}
}

func (s Suite) verifier(t *testing.T, secrets ...webhook.Secret) webhook.Verifier {
	t.Helper()
	settings := s.Settings
	settings.Source = "suite-source"
	settings.Secrets = secrets
	v, err := s.Provider.New(settings)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return v
}

// input returns the typical delivery, to be signed with key i at a time.
func (s Suite) input(i int, at time.Time) webhook.SignInput {
	in := s.Input
	in.Secret, in.At, in.Options = s.Keys[i].signing(), at, s.Settings.Options
	if in.URL == "" {
		in.URL = s.Settings.URL
	}
	return in
}

func (s Suite) sign(t *testing.T, in webhook.SignInput) *webhook.Request {
	t.Helper()
	out, err := s.Sign(in)
	if err != nil {
		t.Fatalf("Sign: %v", err)
	}
	return request(out)
}

// delivery returns the typical delivery, signed with key i and received now.
func (s Suite) delivery(t *testing.T, i int) *webhook.Request {
	t.Helper()
	return s.sign(t, s.input(i, now))
}

func request(out webhook.SignOutput) *webhook.Request {
	header := out.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &webhook.Request{Method: http.MethodPost, URL: out.URL, Header: header, Body: bytes.Clone(out.Body),
		ReceivedAt: now}
}

func admitted(t *testing.T, v webhook.Verifier, r *webhook.Request, wantSecret string) {
	t.Helper()
	m, err := v.Verify(r)
	if err != nil {
		t.Errorf("Verify: got %v, want the delivery admitted", err)
		return
	}
	if m.Secret != wantSecret {
		t.Errorf("Match.Secret: got %q, want %q", m.Secret, wantSecret)
	}
}

// refused checks that r is rejected, with one of the classes if any are given.
func (s Suite) refused(t *testing.T, v webhook.Verifier, r *webhook.Request, classes ...webhook.Class) {
	t.Helper()
	_, err := v.Verify(r)
	if err == nil {
		t.Errorf("Verify: the delivery is admitted, want a rejection %v", classes)
		return
	}
	class, ok := webhook.ClassOf(err)
	if !ok {
		t.Errorf("Verify: got %T, want a *webhook.Error", err)
	}
	if len(classes) > 0 && !slices.Contains(classes, class) {
		t.Errorf("Verify: got class %s (%v), want one of %v", class, err, classes)
	}
	for _, k := range s.Keys {
		for _, secret := range []string{k.Verify, k.Sign} {
			if secret != "" && strings.Contains(err.Error(), secret) {
				t.Error("Verify: the error contains a secret")
			}
		}
	}
	if sig := r.Header.Get(s.Signature); len(sig) > 16 && strings.Contains(err.Error(), sig) {
		t.Error("Verify: the error contains the signature")
	}
}
