// Package discord verifies Discord's webhook events and interactions.
//
// Source: discord/discord-api-docs developers/events/webhook-events.mdx and
// developers/interactions/overview.mdx.
package discord

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader = "X-Signature-Ed25519"
	timestampHeader = "X-Signature-Timestamp"
	// Discord documents neither a tolerance nor whether a retry is signed with a new time. It retries for ten minutes.
	// A long tolerance allows no replay: equal bodies are one event, because the hash of the body is the ID.
	tolerance = 15 * time.Minute
)

// Provider is Discord. The secret of a source is the public key of the application, 32 bytes in hex.
//
// Discord sends requests with invalid signatures on purpose, and removes an endpoint that does not answer them with
// 401. So every wrong signature has class no_matching_signature, even if its format is wrong. A request without the
// signature headers is malformed, but it also gets 401.
var Provider = webhook.Provider{
	Name: "discord",
	Contract: webhook.Contract{
		Acknowledge:  acknowledge,
		Scheme:       "Ed25519 signature of timestamp and body, in hex",
		ID:           "none; pawl uses the hash of the body",
		Type:         "event.type in the body; interactions: interaction.TYPE",
		Account:      "application_id in the body",
		Object:       "event.data.id in the body; interactions: id in the body",
		OccurredAt:   "event.timestamp in the body",
		Identity:     webhook.ByID,
		Dedupe:       "hash of the body",
		AnswerWithin: 3 * time.Second,
		Retries:      "several retries at exponential intervals, for up to 10 min",
		RetryFor:     10 * time.Minute,
		Disables:     "if deliveries fail too often (Discord sends an e-mail), or if a wrong signature is not answered with 401",
		Tolerance:    tolerance,
		Headers:      webhook.Headers{Signatures: []string{signatureHeader, timestampHeader}},
		Always401:    true,
		PublicKeys:   true,
	},
	New:  newVerifier,
	Sign: sign,
	Sample: webhook.Sample{
		Type:    "APPLICATION_AUTHORIZED",
		EventID: func() string { return webhook.RandomNumber(18) },
		Keys:    newKeys,
	},
}

type verifier struct {
	keys      *webhook.Keyring[ed25519.PublicKey]
	tolerance time.Duration
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	keys, keysErr := webhook.NewKeyring(s, publicKey)
	limit, limitErr := s.ToleranceOr(tolerance)
	return webhook.AsVerifier(&verifier{keys, limit}, errors.Join(keysErr, limitErr))
}

func publicKey(value string) (ed25519.PublicKey, error) {
	key, err := hex.DecodeString(value)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("it is not a public key of 64 hexadecimal digits; copy Public Key from the application's General Information page")
	}
	return key, webhook.CheckEd25519(key)
}

// Verify checks the signature of the timestamp header and the body, and then the age of the timestamp.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := r.HeaderOnce(timestampHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	sig := webhook.DecodeHex(signature)
	signed := append([]byte(stamp), r.Body...)
	match, err := v.keys.Match(r.ReceivedAt, func(key ed25519.PublicKey) bool {
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(key, signed, sig)
	})
	if err != nil {
		return webhook.Match{}, err
	}
	at, err := webhook.ParseUnix(timestampHeader, stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	return match, r.CheckClock(at, v.tolerance)
}

// sign signs a request as Discord does. The secret is an Ed25519 private key in hex: 32 bytes (the seed) or 64 bytes
// (the seed and the public key).
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	key, err := privateKey(in.Secret)
	if err != nil {
		return webhook.SignOutput{}, err
	}
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	signature := ed25519.Sign(key, append([]byte(stamp), in.Body...))
	return in.Output(timestampHeader, stamp, signatureHeader, hex.EncodeToString(signature)), nil
}

func privateKey(value string) (ed25519.PrivateKey, error) {
	key, err := hex.DecodeString(value)
	switch {
	case err == nil && len(key) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(key), nil
	case err == nil && len(key) == ed25519.PrivateKeySize:
		return key, nil
	}
	return nil, errors.New("sign for discord: the secret is not an Ed25519 seed or private key in hex")
}

func newKeys() (webhook.Keys, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	return webhook.Keys{Verify: hex.EncodeToString(public), Sign: hex.EncodeToString(private)}, err
}
