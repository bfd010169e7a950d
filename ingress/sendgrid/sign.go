package sendgrid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sign signs a delivery as SendGrid does. The secret is a private key on the curve P-256, in PKCS #8 or SEC 1, as
// base64 or PEM. Its public half is the source's secret.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	key, err := parsePrivateKey(in.Secret)
	if err != nil {
		return webhook.SignOutput{}, err
	}
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	sum := sha256.Sum256(append([]byte(stamp), in.Body...))
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return webhook.SignOutput{}, err
	}
	return in.Output(timestampHeader, stamp, signatureHeader, base64.StdEncoding.EncodeToString(sig)), nil
}

func parsePrivateKey(value string) (*ecdsa.PrivateKey, error) {
	der, err := decodeKey(value)
	if err != nil {
		return nil, err
	}
	if parsed, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if key, ok := parsed.(*ecdsa.PrivateKey); ok {
			return key, nil
		}
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, errors.New("sign: the secret is not an ECDSA private key; SendGrid's deliveries are signed with one")
	}
	return key, nil
}

// newKeys generates a key pair: the public key in SendGrid's format, and the private key as base64 of PKCS #8.
func newKeys() (webhook.Keys, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return webhook.Keys{}, err
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return webhook.Keys{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return webhook.Keys{}, err
	}
	return webhook.Keys{Verify: base64.StdEncoding.EncodeToString(spki),
		Sign: base64.StdEncoding.EncodeToString(pkcs8)}, nil
}
