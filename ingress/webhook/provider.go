package webhook

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Provider describes a sender of webhooks: its contract, and how to verify its deliveries.
type Provider struct {
	Name     string
	Contract Contract
	// New validates the settings and returns the source's verifier. Its error names every invalid setting and the fix.
	// A source without a usable secret does not start.
	New func(Settings) (Verifier, error)
	// Sign signs a delivery as the provider does. It is nil if that is impossible. Only tests and the commands that
	// send test events use it.
	Sign func(SignInput) (SignOutput, error)
	// Sample holds the other data of a test event. Verification does not use it.
	Sample Sample
}

// Contract describes the behaviour that a provider documents. It determines body limits, answers and the identity of
// events. docs/providers.md is generated from it.
type Contract struct {
	// Scheme describes the signature scheme in a few words, e.g. "HMAC-SHA256 of timestamp.body".
	Scheme string
	// ID, Type, Account, Object, OccurredAt and Mode describe the place of each field in a delivery. A field that the
	// provider does not send is "".
	ID, Type, Account, Object, OccurredAt, Mode string
	// Generic is true if the provider is a signature scheme that many senders use. Each source is then a separate
	// sender with its own event IDs. pawl stores SOURCE/ACCOUNT as the account of an event that contains an account,
	// and SOURCE as the account of any other event.
	Generic bool
	// Identity is the identity of events without an ID in the signed body. "" means [ByBytes].
	Identity Identity
	// Dedupe describes in words how an event is identified.
	Dedupe string
	// AnswerWithin is the provider's published limit for an answer; zero if none is published.
	AnswerWithin time.Duration
	// Retries describes how often and how long the provider retries. RetryFor is the time from the first attempt to the
	// last retry; zero means no retries.
	Retries  string
	RetryFor time.Duration
	// Disables describes when the provider disables the endpoint. DisablesAt is the number of failures in a row that
	// disable it, and DisablesAfter the time in which every delivery failed. Zero means unknown.
	Disables      string
	DisablesAt    int64
	DisablesAfter time.Duration
	// BodyLimit is the size of the largest body that the provider sends, in bytes. Zero means pawl's default.
	BodyLimit int64
	// Tolerance is the default clock tolerance; zero if deliveries have no signed time.
	Tolerance time.Duration
	// Options are the settings of a source that are specific to this provider, each with its effect.
	Options map[string]string
	// Headers lists the headers of the provider's deliveries.
	Headers Headers
	// MinSecret is the minimum length of a secret in bytes. Zero means [MinSecret]; set it only if the provider's
	// secrets are shorter.
	MinSecret int
	// PublicKeys is set if a source's secrets are public keys or certificates, which cannot sign. The format of a key
	// does not show this: Discord's public and private keys have the same format.
	PublicKeys bool
	// PublicKeyPrefix is the prefix of public keys, for a provider with both public keys and symmetric secrets. ""
	// means that no secret is a public key.
	PublicKeyPrefix string
	// SecretOptional is set if a source may have no secret, depending on its settings. New checks each source.
	SecretOptional bool
	// Always401 is set if every rejected request must get 401, even a malformed one. Discord disables an endpoint that
	// answers otherwise.
	Always401 bool
	// Acknowledge, if its Status is not zero, replaces the usual answers 202 and 200 to an authentic delivery. Some
	// providers treat only one status as success. The answer is sent after the events are committed.
	Acknowledge Answer
	// DeliversByGET is set if the provider also sends deliveries as GET requests with the event in the query.
	DeliversByGET bool
	// AsksWithHead is set if the provider checks a URL with an unsigned, empty HEAD request.
	AsksWithHead bool
	// Ping is the prefix of an unsigned body that the provider sends to check a URL; a number follows the prefix. ""
	// means that the provider sends no such body.
	Ping string
}

// VerifiesOnly reports whether a secret is a public key, which cannot sign.
func (c Contract) VerifiesOnly(secret string) bool {
	return c.PublicKeys || c.PublicKeyPrefix != "" && strings.HasPrefix(secret, c.PublicKeyPrefix)
}

// GaveUp returns how close the provider is to disabling the endpoint, from 0 to 1. At 1 the provider has disabled the
// endpoint. 0 also means that the provider's rule is unknown. failures is the number of failures in a row, and lasted
// the time from the first of them to the last.
func (c Contract) GaveUp(failures int64, lasted time.Duration) (share float64) {
	if c.DisablesAt > 0 {
		share = float64(failures) / float64(c.DisablesAt)
	}
	if c.DisablesAfter > 0 {
		share = max(share, lasted.Seconds()/c.DisablesAfter.Seconds())
	}
	return min(share, 1)
}

// Settings holds the configuration of one source.
type Settings struct {
	// Source is the source's name, for error messages.
	Source string
	// Secrets are tried in order. [Match] contains the first secret that fits.
	Secrets []Secret
	// MinSecret is a copy of [Contract].MinSecret. The provider copies it before it decodes the secrets.
	MinSecret int
	// Mode is the configured mode of the source.
	Mode Mode
	// URL is the public URL as registered with the provider. It is required if the scheme signs it.
	URL string
	// Tolerance is the maximum difference between the signed time and the receive time, in both directions. Zero means
	// the provider's default. The check cannot be disabled.
	Tolerance time.Duration
	// Offline prevents the verifier from fetching anything, so that a diagnosis does not use up the fetches of the
	// source.
	Offline bool
	// Options are the provider-specific settings, e.g. "webhook_id" for PayPal.
	Options map[string]string
}

// Choice returns the value of an option, or "" if the option is not set. It returns an error if the value is not in
// values.
func (s Settings) Choice(name string, values ...string) (string, error) {
	value := s.Options[name]
	if value == "" || slices.Contains(values, value) {
		return value, nil
	}
	return "", fmt.Errorf("source %s: options.%s: it is %q; use %s, or leave it out", s.Source, name, value,
		strings.Join(values, " or "))
}
