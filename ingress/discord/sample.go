package discord

import (
	"crypto/ed25519"
	"crypto/rand"
	_ "embed"
	"encoding/hex"

	"github.com/pawlhq/pawl/ingress/webhook"
)

//go:embed sample.tmpl
var sampleBody string

// sample is an app that a user has authorised.
var sample = webhook.Sample{
	Type:    "APPLICATION_AUTHORIZED",
	EventID: func() string { return webhook.RandomNumber(18) },
	Keys:    newKeys,
	Body:    sampleBody,
}

func newKeys() (webhook.Keys, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	return webhook.Keys{Verify: hex.EncodeToString(public), Sign: hex.EncodeToString(private)}, err
}
