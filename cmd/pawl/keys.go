package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/pawlhq/pawl/ingress/sendgrid"
)

// providerKeys are new ones of a provider's, as it makes them itself.
type providerKeys struct {
	// verify is a source's secret, or the public half where the provider signs with a private key.
	verify string
	// sign is what the provider signs with: verify itself, but for a pair.
	sign string
}

// pair reports whether what signs is another key than what verifies.
func (k providerKeys) pair() bool { return k.sign != k.verify }

// neededOptions are those that a source of the provider cannot do without, as what is forged for it needs them.
func neededOptions(provider string) map[string]string {
	switch provider {
	case "hmac":
		return map[string]string{"header": "X-Signature", "id": "/id", "type": "/type"}
	case "paypal":
		return map[string]string{"webhook_id": "WH-1"}
	}
	return nil
}

// newKeys makes random keys for a source of the provider. A pair is good for ten years.
func newKeys(provider string) (providerKeys, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails, see its documentation
	one := func(text string) providerKeys { return providerKeys{verify: text, sign: text} }
	switch provider {
	case "discord":
		public, private, err := ed25519.GenerateKey(rand.Reader)
		return providerKeys{verify: hex.EncodeToString(public), sign: hex.EncodeToString(private)}, err
	case "sendgrid":
		public, private, err := sendgrid.NewKeys()
		return providerKeys{verify: public, sign: private}, err
	case "paypal":
		now := time.Now()
		return selfSigned("messageverificationcerts.paypal.com", 2048, now.Add(-time.Hour), now.AddDate(10, 0, 0))
	case "stripe", "standardwebhooks", "svix":
		return one("whsec_" + base64.StdEncoding.EncodeToString(secret[:])), nil
	}
	return one(hex.EncodeToString(secret[:])), nil
}

// selfSigned makes a certificate for the subject, of an RSA key of so many bits, and that key; both are PEM.
func selfSigned(subject string, bits int, from, until time.Time) (providerKeys, error) {
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return providerKeys{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, NotBefore: from, NotAfter: until,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return providerKeys{}, err
	}
	sign, err := x509.MarshalPKCS8PrivateKey(private)
	return providerKeys{
		verify: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		sign:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sign})),
	}, err
}
