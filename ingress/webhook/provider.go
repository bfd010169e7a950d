package webhook

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Provider describes a sender of webhooks: its contract, and how to verify a source of it.
type Provider struct {
	Name     string
	Contract Contract
	// New validates the settings and returns the source's verifier. Its error names every invalid setting and the fix.
	// A source without a usable secret does not start.
	New func(Settings) (Verifier, error)
	// Sign makes a delivery like the provider's; it is nil if that is impossible. It is for tests and for sending test
	// events. Verification does not use it.
	Sign func(SignInput) (SignOutput, error)
	// Sample holds the other data that an invented event needs, for the same uses only.
	Sample Sample
}

// Contract holds the promises of a provider's documents as data. It determines body limits, answers and the identity
// of events. The tables of the documentation are generated from it.
type Contract struct {
	// Scheme names the verification in a few words, e.g. "HMAC-SHA256 of t.body".
	Scheme string
	// ID, Type, Account, Object, OccurredAt and Mode describe where each field is found; "" if the provider does not
	// send it.
	ID, Type, Account, Object, OccurredAt, Mode string
	// Generic is true if the provider is a signature scheme rather than one sender. Each source is then a
	// sender with its own IDs: the source's name becomes part of the account, before a slash if an event contains an
	// account.
	Generic bool
	// Identity applies to events without an ID in the signed body; "" is [ByBytes].
	Identity Identity
	// Dedupe describes in words how an event is identified.
	Dedupe string
	// AnswerWithin is the provider's published limit for an answer; zero if none is published.
	AnswerWithin time.Duration
	// Retries describes how often and how long the provider retries. RetryFor is the total time, zero for never.
	Retries  string
	RetryFor time.Duration
	// Disables describes when the provider disables the endpoint: after DisablesAt failures in a row, or DisablesAfter
	// of only failures. Zero means unknown.
	Disables      string
	DisablesAt    int64
	DisablesAfter time.Duration
	// BodyLimit is the largest body that the provider sends, in bytes; zero means pawl's default.
	BodyLimit int64
	// Tolerance is the default clock tolerance; zero if deliveries have no signed time.
	Tolerance time.Duration
	// Options are the settings of a source that are specific to this provider, each with its effect.
	Options map[string]string
	// Headers lists the headers of the provider's deliveries.
	Headers Headers
	// MinSecret is the shortest secret of a source, in bytes, if the provider's secrets are shorter than [MinSecret];
	// else zero.
	MinSecret int
	// PublicKeys is set if a source's secrets are public keys or certificates, which verify and cannot sign. It cannot
	// be derived: a public key of Discord's has the format of a private one.
	PublicKeys bool
	// PublicKeyPrefix is the prefix of secrets that are public keys, if a source's other secrets can sign; "" if no
	// secret is a public key.
	PublicKeyPrefix string
	// SecretOptional is set if some sources need no secret of their own. New decides for each source.
	SecretOptional bool
	// Always401 is set if every rejection must be answered with 401, even of requests that no secret could admit.
	// Discord disables an endpoint that answers otherwise.
	Always401 bool
	// Acknowledge is the answer to an authentic delivery in place of the usual 202 or 200, once its events are
	// committed; its Status is zero for the usual one. Some providers count only one status as success.
	Acknowledge Answer
	// DeliversByGET is set if the provider also sends deliveries as GET requests with the event in the query.
	DeliversByGET bool
	// AsksWithHead is set if the provider checks a URL with an unsigned, empty HEAD request.
	AsksWithHead bool
	// Ping is the beginning of the unsigned body by which the provider checks a URL. Only a number follows. "" if the
	// provider sends no such body.
	Ping string
}

// VerifiesOnly reports whether a secret is a public key, which cannot sign.
func (c Contract) VerifiesOnly(secret string) bool {
	return c.PublicKeys || c.PublicKeyPrefix != "" && strings.HasPrefix(secret, c.PublicKeyPrefix)
}

// GaveUp returns how close the provider is to disabling the endpoint: 1 if it has disabled it, 0 if the rule is
// unknown. failures counts the failures in a row; lasted is the time from the first to the last.
func (c Contract) GaveUp(failures int64, lasted time.Duration) (share float64) {
	if c.DisablesAt > 0 {
		share = float64(failures) / float64(c.DisablesAt)
	}
	if c.DisablesAfter > 0 {
		share = max(share, lasted.Seconds()/c.DisablesAfter.Seconds())
	}
	return min(share, 1)
}

// Settings is what one source configures for its provider.
type Settings struct {
	// Source is the source's name, for error messages.
	Source string
	// Secrets are tried in order. The first match is reported.
	Secrets []Secret
	// MinSecret is the contract's MinSecret. A provider that has one sets it before it reads the secrets.
	MinSecret int
	// Mode is the source's declared mode.
	Mode Mode
	// URL is the public URL as registered with the provider. It is required if the scheme signs it.
	URL string
	// Tolerance bounds the clock difference in both directions; zero means the provider's default. It cannot be
	// disabled.
	Tolerance time.Duration
	// Offline prevents the verifier from fetching anything, so that a diagnosis does not use up the fetches of the
	// source.
	Offline bool
	// Options are the provider-specific settings, e.g. "webhook_id" for PayPal.
	Options map[string]string
}

// Choice returns the value of an option, which must be one of values, or "" if it is not set.
func (s Settings) Choice(name string, values ...string) (string, error) {
	value := s.Options[name]
	if value == "" || slices.Contains(values, value) {
		return value, nil
	}
	return "", fmt.Errorf("source %s: options.%s: it is %q; use %s, or leave it out", s.Source, name, value,
		strings.Join(values, " or "))
}
