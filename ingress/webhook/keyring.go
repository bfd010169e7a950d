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
	// MinSecret is the shortest key, in bytes, that a source may have: the minimum of Standard
	// Webhooks 1.0.0. A shorter one can be guessed, and an empty one verifies whatever an
	// attacker signs with nothing (stripe-go PR 2429).
	MinSecret = 24

	// MinSecret128 is the length of secrets of 128 bits in base64 without padding, which some providers make
	// and nobody can have longer.
	MinSecret128 = 22

	// MaxSignatures is how many signatures of one header are compared. A provider that rotates
	// sends two or three; without a bound, a header of 60 KB buys a thousand comparisons.
	MaxSignatures = 16

	// AllowShortSecrets is the key of Settings.Options that lifts MinSecret and CheckStandIn when it is "true",
	// for the published examples and for test endpoints. An empty secret stays refused.
	AllowShortSecrets = "allow_short_secrets"
)

// Keyring holds the secrets of one source in the form that its scheme uses.
type Keyring[K any] struct {
	source string
	keys   []ringKey[K]
}

type ringKey[K any] struct {
	secret Secret
	key    K
}

// NewKeyring decodes the secrets of s. Its error names, for each secret that cannot be used, the
// source, the secret's label and what decode says, which should be the fix.
func NewKeyring[K any](s Settings, decode func(value string) (K, error)) (*Keyring[K], error) {
	ring := &Keyring[K]{source: s.Source}
	if len(s.Secrets) == 0 {
		return nil, fmt.Errorf("source %s: secrets: there is none; name at least one, e.g. env:NAME or file:PATH", s.Source)
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
		// A PEM file ends with a line break, and what made it may have written text before it.
		case strings.TrimSpace(secret.Value) != secret.Value && !strings.Contains(secret.Value, "-----BEGIN "):
			fault("white space or a line break stands around it; store it without")
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

// NewHMACKeyring is [NewKeyring] for symmetric keys: it also refuses those that [CheckKey] does, as decoded.
func NewHMACKeyring(s Settings, decode func(value string) ([]byte, error)) (*Keyring[[]byte], error) {
	return NewKeyring(s, func(value string) ([]byte, error) {
		key, err := decode(value)
		if err != nil {
			return nil, err
		}
		return key, CheckKey(s, key)
	})
}

// CheckKey refuses an empty symmetric key, and unless s allows it one under [MinSecret] bytes, or those of s, and one
// that only stands where a secret should be, see [CheckStandIn].
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

// TextKey takes the secret's text as the key.
func TextKey(value string) ([]byte, error) { return []byte(value), nil }

// HexKey takes a secret that is written in hex.
func HexKey(value string) ([]byte, error) {
	key, err := hex.DecodeString(value)
	if err != nil {
		return nil, errors.New("it is not hexadecimal; copy the key as the provider shows it")
	}
	return key, nil
}

// Base64Key takes a secret that is written in standard base64. Unlike in a signature, spare bits may be
// set: a secret that somebody has thought up has them, and the libraries of Standard Webhooks take it.
func Base64Key(value string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(value)
	if err == nil && !strings.ContainsAny(value, "\r\n") {
		return key, nil
	}
	// It may as well have lost more than that: the provider's copy has to be looked at.
	if _, err := base64.RawStdEncoding.DecodeString(value); err == nil && len(value)%4 != 0 {
		return nil, fmt.Errorf("its end is missing: base64 of %d characters ends with %q; copy the key again, and add that where the provider leaves it out",
			len(value), strings.Repeat("=", 4-len(value)%4))
	}
	return nil, errors.New("it is not base64; copy the key as the provider shows it")
}

// Match returns the first secret, in the order of the settings, that is active at the time and
// whose key admits the request, or an *[Error] of class [NoMatchingSignature].
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

// MatchHMAC admits when one of the first [MaxSignatures] candidates is the HMAC of the parts, one
// after the other, under an active key. It compares in constant time.
func MatchHMAC(ring *Keyring[[]byte], at time.Time, newHash func() hash.Hash, candidates [][]byte,
	parts ...[]byte) (Match, error) {
	candidates = candidates[:min(len(candidates), MaxSignatures)]
	return ring.Match(at, func(key []byte) bool {
		return Fits(MAC(newHash, key, parts...), candidates)
	})
}

// Fits reports whether one of the candidates is mac. It looks at all of them, in constant time.
func Fits(mac []byte, candidates [][]byte) bool {
	found := false
	for _, c := range candidates {
		if hmac.Equal(mac, c) {
			found = true
		}
	}
	return found
}

// MAC returns the HMAC of the parts, one after the other.
func MAC(newHash func() hash.Hash, key []byte, parts ...[]byte) []byte {
	mac := hmac.New(newHash, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// MatchToken admits when token is the hash of an active key. It compares hashes in constant time, so that not even the
// length of the secret shows.
func MatchToken(ring *Keyring[[]byte], at time.Time, token TokenHash) (Match, error) {
	return ring.Match(at, func(key []byte) bool {
		want := sha256.Sum256(key)
		return subtle.ConstantTimeCompare(token[:], want[:]) == 1
	})
}

// DecodeHex decodes a signature in hex, of either case. Any other text gives nil, which no MAC equals.
func DecodeHex(text string) []byte {
	sig, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return sig
}

// DecodeBase64 decodes a signature in padded standard base64. Any other text gives nil. It is strict:
// encoding/base64 otherwise skips line breaks and accepts spare bits, so that many texts would be
// one signature.
func DecodeBase64(text string) []byte {
	sig, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil
	}
	return sig
}
