package webhook

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Sample says how to make up an event of the provider, and a source for it, so that pawl can be tried without the
// provider: in tests, with `pawl dev` and with `pawl send`. As [Provider.Sign], it has no part in verifying a delivery.
type Sample struct {
	// Type is the type of the event that is made where none is asked for; "" is test.event.
	Type string
	// TypeWith has other such types, by the option of the source that asks for them, written name=value.
	TypeWith map[string]string
	// Funcs are functions of the template of its body, cmd/internal/forge/samples/NAME.tmpl.
	Funcs map[string]any
	// EventID returns a random event ID in the provider's form; nil puts evt_ before random letters and digits.
	EventID func() string
	// Account is the default provider-side account of an event; "" for an event without account.
	Account string
	// Options are those that a source cannot do without.
	Options map[string]string
	// Keys makes new keys as the provider does; nil makes 64 hexadecimal digits.
	Keys func() (Keys, error)
}

// TypeFor returns the type of the event that is made for a source with these options where none is asked for.
func (s Sample) TypeFor(options map[string]string) string {
	for option, typ := range s.TypeWith {
		if name, value, _ := strings.Cut(option, "="); options[name] == value {
			return typ
		}
	}
	return cmp.Or(s.Type, "test.event")
}

// NewEventID returns a random event ID in the provider's form.
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

// Keys are what a source verifies with, its secret, and what the provider signs with.
type Keys struct{ Verify, Sign string }

// Pair reports whether the provider signs with a private key. The source then has the public half only.
func (k Keys) Pair() bool { return k.Sign != k.Verify }

// sharedKey is one that both sides have.
func sharedKey(text string) Keys { return Keys{Verify: text, Sign: text} }

// NewWhsec makes a key as Stripe and the senders of Standard Webhooks write theirs: whsec_ and base64 of 32 bytes.
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
