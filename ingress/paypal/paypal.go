// Package paypal verifies PayPal's webhooks offline, with PayPal's certificate.
//
// Source: developer.paypal.com/api/rest/webhooks/rest ("self cryptographic verification is the
// preferred method"), PayPal-Java-SDK, PayPal-Python-SDK.
//
// # The weakness of the signature
//
// PayPal signs a CRC-32 of the body, which is not a cryptographic hash: an attacker who has one signed delivery can
// write another body with the same checksum. Because of TLS and the clock check, this attack is possible only for
// minutes, and only for a person who saw the delivery. pawl parks a second body with the same transmission ID, but it
// runs a forged body that arrives before PayPal's own. So a flow that moves money must fetch the resource from PayPal
// before it acts.
//
// # Certificates
//
// With options.certificates: fetch, the first delivery that needs a certificate fetches it from PayPal, and each
// process caches it in memory (see [Fetched]). Otherwise the operator configures the certificate in PEM, as a secret of
// the source or in options.certificate_pem. PayPal changes its certificate every year: add the new certificate as a
// second secret before the old one expires. In both cases the URL in the header is checked (see [CheckCertURL]).
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

	// PayPal does not document a tolerance. Each attempt has its own signed time, so a short tolerance rejects no
	// retries. Because of the weak checksum, a short tolerance is necessary.
	tolerance = 5 * time.Minute

	// The first constants are keys in Settings.Options. The last one is a value of certificatesOption.
	webhookIDOption    = "webhook_id"
	certificateOption  = "certificate_pem"
	certificatesOption = "certificates"
	fetch              = "fetch"
)

// Provider is PayPal. A source needs options.webhook_id and a certificate.
var Provider = webhook.Provider{
	Name: "paypal",
	Contract: webhook.Contract{
		Scheme:     "RSA-SHA256 of transmission ID|time|webhook ID|CRC-32 of the body, in base64",
		ID:         "id in the body",
		Type:       "event_type in the body",
		Account:    "resource.payee.merchant_id in the body",
		Object:     "resource.id in the body",
		OccurredAt: "create_time in the body",
		Dedupe:     "id in the body (the transmission ID differs for each attempt)",
		Retries:    "up to 25 retries in 3 days",
		RetryFor:   72 * time.Hour,
		Disables:   "not published",
		Headers: webhook.Headers{Signatures: []string{idHeader, timeHeader, signatureHeader, certURLHeader,
			algorithmHeader}},
		Tolerance: tolerance,
		// The signature covers the ID in the body only through the checksum.
		Identity: webhook.ByID,
		Options: map[string]string{
			webhookIDOption:    "required: the Webhook ID from the page of the app's webhook. The signed text contains it",
			certificatesOption: "`fetch`: pawl fetches PayPal's certificate when a delivery first names it. The source then needs no secret, but your network must allow requests to PayPal's API hosts",
			certificateOption:  "the certificate in PEM, if pawl does not fetch it and it is not a secret of the source",
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

// New returns a verifier that uses the certificates of store. Provider.New calls it with the store that the settings
// select.
func New(s webhook.Settings, store CertificateStore) (webhook.Verifier, error) {
	limit, err := s.ToleranceOr(tolerance)
	id := s.Options[webhookIDOption]
	if id == "" || strings.Contains(id, "|") {
		err = errors.Join(err, fmt.Errorf("source %s: options.%s: it is missing or not an ID, and the signed text contains it; copy Webhook ID from the page of the app's webhook", s.Source, webhookIDOption))
	}
	return webhook.AsVerifier(&verifier{store: store, webhookID: id, tolerance: limit}, err)
}

// Verify checks the URL of the certificate, then the signature, and then the time of the transmission. It uses the
// certificates that are valid at the receive time. If the error is not a *[webhook.Error], the certificate could not be
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
		return t, webhook.Errorf(webhook.MalformedHeader, "%s contains the separator of the signed text", idHeader)
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

// message returns the bytes that PayPal signs. They contain the checksum as a decimal number without a sign.
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
		// Moment ignores an invalid time: PayPal's simulator sends times with month 19.
		OccurredAt: body.Moment("create_time"),
		APIVersion: body.Tag("resource_version"),
	}
	e.ID, e.IDOrigin = body.EventID("id")
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// sign signs a delivery as PayPal does. The secret is an RSA private key in PEM (PKCS #8).
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	block, _ := pem.Decode([]byte(in.Secret))
	if block == nil {
		return webhook.SignOutput{}, errors.New("sign for paypal: the secret is not a private key in PEM")
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
