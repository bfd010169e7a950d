package webhook

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Sample describes how to generate a test event of the provider, and a source for it. Tests, `pawl dev` and `pawl send`
// use it; verification does not.
type Sample struct {
	// Type is the default event type; "" means test.event.
	Type string
	// TypeWith maps an option of the source, written name=value, to the default event type of sources with that option.
	TypeWith map[string]string
	// Funcs are the functions that the template of the body may call. The template is
	// cmd/internal/dev/forge/samples/NAME.tmpl.
	Funcs map[string]any
	// EventID returns a random event ID in the provider's format. If it is nil, IDs are evt_ and random letters and
	// digits.
	EventID func() string
	// Account is the default provider account of an event; "" for events without an account.
	Account string
	// Options are the required options of a source.
	Options map[string]string
	// Keys generates keys in the provider's format. If it is nil, the key is 64 hexadecimal digits.
	Keys func() (Keys, error)
}

// TypeFor returns the default event type for a source with these options.
func (s Sample) TypeFor(options map[string]string) string {
	for option, typ := range s.TypeWith {
		if name, value, _ := strings.Cut(option, "="); options[name] == value {
			return typ
		}
	}
	return cmp.Or(s.Type, "test.event")
}

// NewEventID returns a random event ID in the provider's format.
func (s Sample) NewEventID() string {
	if s.EventID == nil {
		return "evt_" + rand.Text()
	}
	return s.EventID()
}

// NewKeys returns new keys for a source and its provider.
func (s Sample) NewKeys() (Keys, error) {
	if s.Keys == nil {
		return sharedKey(RandomHex(64)), nil
	}
	return s.Keys()
}

// Keys holds the secret of a source, Verify, and the key that the provider signs with, Sign.
type Keys struct{ Verify, Sign string }

// Pair reports whether the provider signs with a private key. Verify is then the public key.
func (k Keys) Pair() bool { return k.Sign != k.Verify }

// sharedKey returns Keys for a scheme in which both sides have the same secret.
func sharedKey(text string) Keys { return Keys{Verify: text, Sign: text} }

// NewWhsec generates a key in the format of Stripe and Standard Webhooks: whsec_ and base64 of 32 bytes.
func NewWhsec() (Keys, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails, see its documentation
	return sharedKey("whsec_" + base64.StdEncoding.EncodeToString(key[:])), nil
}

// RandomHex returns n random hexadecimal digits.
func RandomHex(n int) string {
	digits := make([]byte, (n+1)/2)
	_, _ = rand.Read(digits) // never fails, see its documentation
	return hex.EncodeToString(digits)[:n]
}

// RandomUUID returns a random UUID (version 4).
func RandomUUID() string {
	h := RandomHex(32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
}

// RandomNumber returns a random number of n decimal digits.
func RandomNumber(n int) string {
	digits := make([]byte, n)
	_, _ = rand.Read(digits) // never fails, see its documentation
	for i, b := range digits {
		digits[i] = '0' + b%10
	}
	digits[0] = '1' + digits[0]%9
	return string(digits)
}
