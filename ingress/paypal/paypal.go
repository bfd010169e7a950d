// Package paypal verifies PayPal's webhooks offline, with PayPal's certificate.
//
// Source: developer.paypal.com/api/rest/webhooks/rest ("self cryptographic verification is the
// preferred method"), PayPal-Java-SDK, PayPal-Python-SDK.
//
// # The worth of the signature
//
// PayPal signs a CRC-32 of the body, which is not a cryptographic hash: the holder of one signed delivery can write
// another body with the same checksum. TLS and the clock check limit this to minutes and to parties that saw the
// delivery. A second body with the same transmission is parked, but a forged body that arrives before PayPal's own is
// run. So a flow that moves money must treat the event as a hint and fetch the resource from PayPal before it acts.
//
// # Certificates
//
// With options.certificates: fetch, the first delivery that needs a certificate fetches it from PayPal, and each
// process caches it in memory (see [Fetched]). Otherwise certificates are configured in PEM, as the source's secrets or
// options.certificate_pem. PayPal changes its certificate every year; add the new one as a second secret before the old
// one expires. The URL is checked in both cases (see [CheckCertURL]).
package paypal

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	idHeader        = "Paypal-Transmission-Id"
	timeHeader      = "Paypal-Transmission-Time"
	signatureHeader = "Paypal-Transmission-Sig"
	certURLHeader   = "Paypal-Cert-Url"
	algorithmHeader = "Paypal-Auth-Algo"
	algorithm       = "SHA256withRSA"

	// PayPal publishes no tolerance. Each attempt is a transmission with its own time, and the weak checksum (see
	// above) requires a narrow window.
	tolerance = 5 * time.Minute

	// The keys in Settings.Options.
	webhookIDOption    = "webhook_id"
	certificateOption  = "certificate_pem"
	certificatesOption = "certificates"
	fetch              = "fetch"
)

// Provider is PayPal. It needs options.webhook_id and a certificate.
var Provider = webhook.Provider{
	Name: "paypal",
	Contract: webhook.Contract{
		Scheme:     "RSA-SHA256 of transmission id|time|webhook id|CRC-32 of body, base64",
		ID:         "body id",
		Type:       "body event_type",
		Account:    "body resource.payee.merchant_id",
		Object:     "body resource.id",
		OccurredAt: "body create_time",
		Dedupe:     "event id; the transmission ID is new for each attempt",
		Retries:    "up to 25 over 3 days",
		RetryFor:   72 * time.Hour,
		Disables:   "not published",
		Headers: webhook.Headers{Signatures: []string{idHeader, timeHeader, signatureHeader, certURLHeader,
			algorithmHeader}},
		Tolerance: tolerance,
		// The ID is signed only through the checksum.
		Identity: webhook.ByID,
		Options: map[string]string{
			webhookIDOption:    "required: Webhook ID, of the app's webhook page. PayPal signs it",
			certificatesOption: "`fetch`: PayPal's certificate is fetched when a delivery first names it, so the source needs no secret. Outgoing requests to PayPal's API hosts must be allowed",
			certificateOption:  "the certificate in PEM, if it is neither fetched nor a secret",
		},
		SecretOptional: true,
		PublicKeys:     true,
	},
	New: func(s webhook.Settings) (webhook.Verifier, error) {
		store, storeErr := newStore(s)
		v, err := New(s, store)
		return webhook.AsVerifier(v, errors.Join(storeErr, err))
	},
	Sign:   sign,
	Sample: sample,
}

type verifier struct {
	store     CertificateStore
	webhookID string
	tolerance time.Duration
}

// New returns a verifier that takes its certificates from store. Provider.New calls it with the store that the settings
// select.
func New(s webhook.Settings, store CertificateStore) (webhook.Verifier, error) {
	limit, err := s.ToleranceOr(tolerance)
	id := s.Options[webhookIDOption]
	if id == "" || strings.Contains(id, "|") {
		err = errors.Join(err, fmt.Errorf("source %s: options.%s: PayPal signs it, and it is missing or not an ID; copy Webhook ID from the app's webhook page", s.Source, webhookIDOption))
	}
	return webhook.AsVerifier(&verifier{store: store, webhookID: id, tolerance: limit}, err)
}

// Verify checks the URL of the certificate, the signature with the certificates of the store that are valid at the
// receive time, and the time of transmission. If the error is not a *[webhook.Error], the certificate could not be
// fetched.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	t, err := readTransmission(r)
	if err != nil {
		return webhook.Match{}, err
	}
	if err := CheckCertURL(t.certURL); err != nil {
		return webhook.Match{}, err
	}
	digest := sha256.Sum256(message(t.id, t.time, v.webhookID, r.Body))
	expired := false
	match, err := v.store.Match(t.certURL, r.ReceivedAt, func(c *x509.Certificate) bool {
		key, ok := c.PublicKey.(*rsa.PublicKey)
		if !ok || rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], t.signature) != nil {
			return false
		}
		if !validAt(c, r.ReceivedAt) {
			expired = true
			return false
		}
		return true
	})
	if err != nil && expired {
		return webhook.Refuse(webhook.UntrustedCert,
			"the signature fits a certificate that was not valid at the receive time")
	}
	if err != nil {
		return webhook.Match{}, err
	}
	if err := r.CheckClock(t.at, v.tolerance); err != nil {
		return webhook.Match{}, err
	}
	match.Covers, match.Transmission = webhook.SignedChecksum, t.id
	return match, nil
}

// transmission holds the values of PayPal's headers.
type transmission struct {
	id, time, certURL string
	at                time.Time
	signature         []byte
}

func readTransmission(r *webhook.Request) (transmission, error) {
	var t transmission
	var encoded, algo string
	for _, h := range []struct {
		name  string
		value *string
	}{
		{signatureHeader, &encoded}, {idHeader, &t.id}, {timeHeader, &t.time}, {certURLHeader, &t.certURL},
		{algorithmHeader, &algo},
	} {
		var err error
		if *h.value, err = r.HeaderOnce(h.name); err != nil {
			return t, err
		}
	}
	if !strings.EqualFold(algo, algorithm) {
		return t, webhook.Errorf(webhook.MalformedHeader, "%s is not %s", algorithmHeader, algorithm)
	}
	if strings.Contains(t.id, "|") {
		return t, webhook.Errorf(webhook.MalformedHeader, "%s holds the separator", idHeader)
	}
	var err error
	if t.at, err = time.Parse(time.RFC3339Nano, t.time); err != nil {
		return t, webhook.Errorf(webhook.MalformedHeader, "%s is not an ISO 8601 time", timeHeader)
	}
	if t.signature = webhook.DecodeBase64(encoded); t.signature == nil {
		return t, webhook.Errorf(webhook.MalformedHeader, "%s is not base64", signatureHeader)
	}
	return t, nil
}

// message returns the signed bytes. The checksum is unsigned and in decimal.
func message(id, stamp, webhookID string, body []byte) []byte {
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)
	return []byte(id + "|" + stamp + "|" + webhookID + "|" + sum)
}

// Events returns the one event of r.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:    body.EventType("event_type"),
		Account: body.Tag("resource.payee.merchant_id"),
		Object:  body.Tag("resource.id"),
		// PayPal's simulator sends times with month 19.
		OccurredAt: body.Moment("create_time"),
		APIVersion: body.Tag("resource_version"),
	}
	e.ID, e.IDOrigin = body.EventID("id")
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// sign makes a delivery as PayPal does. The secret is an RSA private key in PEM (PKCS #8).
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	block, _ := pem.Decode([]byte(in.Secret))
	if block == nil {
		return webhook.SignOutput{}, errors.New("sign for paypal: the secret is no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign for paypal: parse private key: %w", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return webhook.SignOutput{}, errors.New("sign for paypal: the private key is not RSA")
	}
	id := cmp.Or(in.ID, "b1a2c3d4-0000-11f0-8000-000000000000")
	stamp := in.At.UTC().Format(time.RFC3339)
	digest := sha256.Sum256(message(id, stamp, in.Options[webhookIDOption], in.Body))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign for paypal: %w", err)
	}
	return in.Output(idHeader, id, timeHeader, stamp, algorithmHeader, algorithm,
		signatureHeader, base64.StdEncoding.EncodeToString(signature),
		certURLHeader, "https://api.paypal.com"+certPath+"certs/CERT-pawl"), nil
}
