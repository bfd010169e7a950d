package standardwebhooks

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sign signs a delivery; prefix is the prefix of its headers. If the secret is a private key ("whsk_" and the base64 of
// seed and public key), the signature has version v1a, and otherwise v1.
func sign(in webhook.SignInput, prefix string) (webhook.SignOutput, error) {
	if in.ID == "" || strings.Contains(in.ID, ".") {
		return webhook.SignOutput{}, errors.New("sign: Standard Webhooks needs an ID without dots")
	}
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	signed := []byte(in.ID + "." + stamp + "." + string(in.Body))
	signature, err := signature(in.Secret, in.Options[webhook.KeyEncoding], signed)
	if err != nil {
		return webhook.SignOutput{}, err
	}
	return in.Output(prefix+"id", in.ID, prefix+"timestamp", stamp, prefix+"signature", signature), nil
}

func signature(secret, encoding string, signed []byte) (string, error) {
	if text, ok := strings.CutPrefix(secret, privatePrefix); ok {
		private, err := webhook.Base64Key(text)
		if err != nil || len(private) != ed25519.PrivateKeySize {
			return "", errors.New("sign: the secret is not an ed25519 private key of 64 bytes")
		}
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(private, signed)), nil
	}
	key, err := symmetricKey(secret, encoding)
	if err != nil {
		return "", fmt.Errorf("sign: secret: %w", err)
	}
	return "v1," + base64.StdEncoding.EncodeToString(webhook.MAC(sha256.New, key, signed)), nil
}
