package paypal

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sample generates an event about a payment that was captured.
var sample = webhook.Sample{
	Type:    "PAYMENT.CAPTURE.COMPLETED",
	EventID: func() string { return "WH-" + rand.Text()[:17] + "-" + rand.Text()[:17] },
	Options: map[string]string{webhookIDOption: "WH-1"},
	Keys:    newKeys,
}

// newKeys generates a key and its certificate in PEM. The certificate has the subject of PayPal's signing certificates
// and is valid for ten years.
func newKeys() (webhook.Keys, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return webhook.Keys{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "messageverificationcerts.paypal.com"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return webhook.Keys{}, err
	}
	sign, err := x509.MarshalPKCS8PrivateKey(private)
	return webhook.Keys{
		Verify: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		Sign:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: sign})),
	}, err
}
