package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"
)

const (
	// MinSecret is the shortest key of a source, in bytes: the minimum of Standard Webhooks 1.0.0. An attacker can
	// guess a shorter key. With an empty key, an attacker can sign anything (stripe-go PR 2429).
	MinSecret = 24

	// MinSecret128 is the length of 128 bits in base64 without padding. Some providers only generate secrets of this
	// length.
	MinSecret128 = 22

	// MaxSignatures is how many signatures of one header are compared. During a rotation of secrets, a provider sends
	// two or three signatures. Without a limit, a header of 60 KB would cause a thousand comparisons.
	MaxSignatures = 16

	// KeyEncoding is the key in Settings.Options for the encoding of the secrets. Only some providers have this option.
	KeyEncoding = "key_encoding"

	// AllowShortSecrets is the key in Settings.Options that disables MinSecret and CheckStandIn if it is "true", for
	// published examples and test endpoints. An empty secret is still rejected.
	AllowShortSecrets = "allow_short_secrets"
)

// Keyring holds the decoded secrets of one source. K is the type of a decoded secret.
type Keyring[K any] struct {
	source string
	keys   []ringKey[K]
}

type ringKey[K any] struct {
	secret Secret
	key    K
}

// NewKeyring decodes the secrets of s. Its error names the source and the label of each unusable secret, and contains
// the error of decode. The error of decode should contain the fix.
func NewKeyring[K any](s Settings, decode func(value string) (K, error)) (*Keyring[K], error) {
	ring := &Keyring[K]{source: s.Source}
	if len(s.Secrets) == 0 {
		return nil, fmt.Errorf("source %s: secrets: the list is empty; add at least one, e.g. env:NAME or file:PATH", s.Source)
	}
	var faults []error
	labels := map[string]bool{}
	for i, secret := range s.Secrets {
		fault := func(format string, args ...any) {
			faults = append(faults,
				fmt.Errorf("source %s: secrets[%d] (%s): %w", s.Source, i, secret.Label, fmt.Errorf(format, args...)))
		}
		if labels[secret.Label] {
			fault("the label is used twice; give each secret its own")
		}
		labels[secret.Label] = true
		if !secret.NotBefore.IsZero() && !secret.NotAfter.IsZero() && secret.NotAfter.Before(secret.NotBefore) {
			fault("not_after lies before not_before; swap them")
		}
		switch {
		case strings.TrimSpace(secret.Value) == "":
			fault("it is empty; copy the secret from the provider")
			continue
		// A PEM file ends with a line break, and it may contain other text before the PEM block.
		case strings.TrimSpace(secret.Value) != secret.Value && !strings.Contains(secret.Value, "-----BEGIN "):
			fault("it begins or ends with white space or a line break; remove that")
			continue
		}
		key, err := decode(secret.Value)
		if err != nil {
			fault("%w", err)
			continue
		}
		ring.keys = append(ring.keys, ringKey[K]{secret, key})
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return ring, nil
}

// NewHMACKeyring is [NewKeyring] for symmetric keys. It also rejects keys that fail [CheckKey] after decoding.
func NewHMACKeyring(s Settings, decode func(value string) ([]byte, error)) (*Keyring[[]byte], error) {
	return NewKeyring(s, func(value string) ([]byte, error) {
		key, err := decode(value)
		if err != nil {
			return nil, err
		}
		return key, CheckKey(s, key)
	})
}

// CheckKey rejects an empty symmetric key. Unless s allows short secrets, it also rejects placeholders (see
// [CheckStandIn]) and keys below the minimum length: s.MinSecret, or [MinSecret] if that is zero.
func CheckKey(s Settings, key []byte) error {
	if len(key) == 0 {
		return errors.New("it decodes to nothing; copy the secret from the provider")
	}
	if s.Options[AllowShortSecrets] == "true" {
		return nil
	}
	if least := cmp.Or(s.MinSecret, MinSecret); len(key) < least {
		return fmt.Errorf("it has %d bytes, fewer than %d; make a longer one at the provider", len(key), least)
	}
	return CheckStandIn(key)
}

// TextKey uses the text of the secret as the key.
func TextKey(value string) ([]byte, error) { return []byte(value), nil }

// HexKey decodes a secret in hex.
func HexKey(value string) ([]byte, error) {
	key, err := hex.DecodeString(value)
	if err != nil {
		return nil, errors.New("it is not hexadecimal; copy the key as the provider shows it")
	}
	return key, nil
}

// Base64Key decodes a secret in standard base64. Unlike a signature, a secret may have unused trailing bits set:
// secrets that a person typed have them, and the libraries of Standard Webhooks accept them.
func Base64Key(value string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(value)
	if err == nil && !strings.ContainsAny(value, "\r\n") {
		return key, nil
	}
	// More than the padding may be missing, so the operator has to copy the secret again.
	if _, err := base64.RawStdEncoding.DecodeString(value); err == nil && len(value)%4 != 0 {
		return nil, fmt.Errorf("its end is missing: base64 of %d characters ends with %q; copy the key again, and add the padding if the provider omits it",
			len(value), strings.Repeat("=", 4-len(value)%4))
	}
	return nil, errors.New("it is not base64; copy the key as the provider shows it")
}

// Match calls admits with the key of each secret that is active at the given time, in the order of the settings. It
// returns the first secret for which admits returns true. Its error is an *[Error] of class [NoMatchingSignature].
func (ring *Keyring[K]) Match(at time.Time, admits func(key K) bool) (Match, error) {
	active := 0
	for _, k := range ring.keys {
		if !k.secret.Active(at) {
			continue
		}
		active++
		if admits(k.key) {
			return Match{Secret: k.secret.Label}, nil
		}
	}
	if active == 0 {
		return Refuse(NoMatchingSignature, "no secret of source %s is active at %s", ring.source,
			at.UTC().Format(time.RFC3339))
	}
	return Refuse(NoMatchingSignature, "no signature fits any of the %d active secrets of source %s", active,
		ring.source)
}

// MatchHMAC returns the first active secret under which one of the candidates is the HMAC of the concatenated parts. It
// reads the first [MaxSignatures] candidates and compares in constant time.
func MatchHMAC(ring *Keyring[[]byte], at time.Time, newHash func() hash.Hash, candidates [][]byte,
	parts ...[]byte) (Match, error) {
	candidates = candidates[:min(len(candidates), MaxSignatures)]
	return ring.Match(at, func(key []byte) bool {
		return Fits(MAC(newHash, key, parts...), candidates)
	})
}

// Fits reports whether one of the candidates equals mac. It compares all of them in constant time.
func Fits(mac []byte, candidates [][]byte) bool {
	found := false
	for _, c := range candidates {
		if hmac.Equal(mac, c) {
			found = true
		}
	}
	return found
}

// MAC returns the HMAC of the concatenated parts.
func MAC(newHash func() hash.Hash, key []byte, parts ...[]byte) []byte {
	mac := hmac.New(newHash, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// MatchToken returns the active secret that token is the hash of. It compares hashes in constant time, so that the
// duration does not reveal the length of the secret.
func MatchToken(ring *Keyring[[]byte], at time.Time, token TokenHash) (Match, error) {
	return ring.Match(at, func(key []byte) bool {
		want := sha256.Sum256(key)
		return subtle.ConstantTimeCompare(token[:], want[:]) == 1
	})
}

// DecodeHex decodes a signature in hex, in upper or lower case. It returns nil for any other text. A comparison of nil
// with a MAC always fails.
func DecodeHex(text string) []byte {
	sig, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return sig
}

// DecodeBase64 decodes a signature in padded standard base64. It returns nil for any other text. It is stricter than
// encoding/base64, which skips line breaks and accepts set trailing bits: many texts would then decode to one
// signature.
func DecodeBase64(text string) []byte {
	sig, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil
	}
	return sig
}
