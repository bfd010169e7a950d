package github

import (
	"crypto/sha1" //nolint:gosec // the legacy X-Hub-Signature; HMAC-SHA1 is not broken by SHA-1's collisions
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// sign signs a delivery as GitHub does, with both hashes. Type is an event's name, with or
// without the action ("issues.opened"), which stands in the body.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	if in.ContentType != "" {
		header.Set("Content-Type", in.ContentType)
	}
	header.Set("User-Agent", "GitHub-Hookshot/pawl")
	if in.ID != "" {
		header.Set(deliveryHeader, in.ID)
	}
	if name, _, _ := strings.Cut(in.Type, "."); name != "" {
		header.Set(eventHeader, name)
	}
	header.Set(signatureHeader, "sha256="+hex.EncodeToString(webhook.MAC(sha256.New, []byte(in.Secret), in.Body)))
	header.Set(sha1Header, "sha1="+hex.EncodeToString(webhook.MAC(sha1.New, []byte(in.Secret), in.Body)))
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
