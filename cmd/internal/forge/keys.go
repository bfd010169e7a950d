package forge

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"time"
)

// Keys are new ones of a provider's, as it makes them itself.
type Keys struct {
	// Verify is a source's secret, or the public half where the provider signs with a private key.
	Verify string
	// Sign is what the provider signs with: Verify itself, but for a pair.
	Sign string
}

// Pair reports whether what signs is another key than what verifies.
func (k Keys) Pair() bool { return k.Sign != k.Verify }

// Options are those that a source of the provider cannot do without, as what is forged for it needs them.
func Options(provider string) map[string]string {
	switch provider {
	case "hmac":
		return map[string]string{"header": "X-Signature", "id": "/id", "type": "/type"}
	case "paypal":
		return map[string]string{"webhook_id": "WH-1"}
	}
	return nil
}

// NewKeys makes random keys for a source of the provider. A pair is good for ten years.
func NewKeys(provider string) (Keys, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails, see its documentation
	one := func(text string) Keys { return Keys{Verify: text, Sign: text} }
	switch provider {
	case "discord":
		public, private, err := ed25519.GenerateKey(rand.Reader)
		return Keys{Verify: hex.EncodeToString(public), Sign: hex.EncodeToString(private)}, err
	case "sendgrid":
		return newSendGridKeys()
	case "paypal":
		return newPayPalKeys()
	case "stripe", "standardwebhooks", "svix":
		return one("whsec_" + base64.StdEncoding.EncodeToString(secret[:])), nil
	}
	return one(hex.EncodeToString(secret[:])), nil
}

func newSendGridKeys() (Keys, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Keys{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return Keys{}, err
	}
	sign, err := x509.MarshalPKCS8PrivateKey(private)
	return Keys{Verify: base64.StdEncoding.EncodeToString(public), Sign: base64.StdEncoding.EncodeToString(sign)}, err
}

func newPayPalKeys() (Keys, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Keys{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "messageverificationcerts.paypal.com"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return Keys{}, err
	}
	sign, err := x509.MarshalPKCS8PrivateKey(private)
	return Keys{
		Verify: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		Sign:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sign})),
	}, err
}
