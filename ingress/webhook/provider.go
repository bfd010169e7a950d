package webhook

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Provider is one sender of webhooks: its promises, and how a source of it is verified.
type Provider struct {
	Name     string
	Contract Contract
	// New checks the settings and returns the source's verifier. Its error names every setting
	// that is wrong and the fix; a source without a usable secret does not start.
	New func(Settings) (Verifier, error)
	// Sign makes a delivery as the provider does; nil where that cannot be done. It is for tests
	// and for sending test events, and not used when a delivery is verified.
	Sign func(SignInput) (SignOutput, error)
	// Sample is what else it takes to make up an event of the provider; for the same uses only.
	Sample Sample
}

// Contract is what a provider's documents promise, as data: it decides about body limits, answers and
// what counts as one event, and is what the tables of the documentation are written from.
type Contract struct {
	// Scheme names the verification in a few words, e.g. "HMAC-SHA256 of t.body".
	Scheme string
	// ID, Type, Account, Object, OccurredAt and Mode say where each is found; "" when the provider does not send it.
	ID, Type, Account, Object, OccurredAt, Mode string
	// Generic is true where the name stands for a way of signing and not for one sender. Each source is
	// then a sender with IDs of its own: its name is part of the account, before a slash where an event gives one.
	Generic bool
	// Identity is what identifies an event whose ID does not stand in the signed body; "" is [ByBytes].
	Identity Identity
	// Dedupe says in words what identifies an event.
	Dedupe string
	// AnswerWithin is the provider's published limit for an answer; zero where none is published.
	AnswerWithin time.Duration
	// Retries says for how long and how often the provider tries again; RetryFor is its horizon, zero for never.
	Retries  string
	RetryFor time.Duration
	// Disables says when the provider gives up on the endpoint. DisablesAt is the number of failures in a row, and
	// DisablesAfter the time of nothing else, after which it does; zero where that is not known.
	Disables      string
	DisablesAt    int64
	DisablesAfter time.Duration
	// BodyLimit is the largest body that the provider sends, in bytes; zero means pawl's default.
	BodyLimit int64
	// Tolerance is the default clock tolerance; zero where nothing is timed.
	Tolerance time.Duration
	// Options are the settings of a source that only this provider knows, each with its effect.
	Options map[string]string
	// Headers are those of the provider's deliveries.
	Headers Headers
	// MinSecret is the shortest secret, in bytes, that a source may have, if the provider makes shorter ones than
	// [MinSecret]; else zero.
	MinSecret int
	// PublicKeys is set where a source's secrets are public keys or certificates: they verify, and what signs stays
	// with the provider. It must be told, since a public key of Discord's has the form of a private one.
	PublicKeys bool
	// PublicKeyPrefix is how those secrets begin that are public keys, where others sign; "" where none is.
	PublicKeyPrefix string
	// SecretOptional is set where a source may do without a secret of its own: New says whether this one may.
	SecretOptional bool
	// Always401 is set where every rejection is to be answered with 401, also of a request that no
	// secret could admit: Discord takes an endpoint away that answers otherwise.
	Always401 bool
	// Acknowledge is the answer to an authentic delivery in place of the usual 202 or 200, once its events are
	// committed; its Status is zero for the usual one. Some providers count only one status as success.
	Acknowledge Answer
	// AsksWithHead is set where a URL is taken only when it answers a HEAD, which nothing signs and which
	// carries nothing.
	AsksWithHead bool
	// Ping is the beginning of the unsigned body that asks whether a URL can be called; a number follows and nothing
	// else. "" for a provider that sends no such body.
	Ping string
}

// VerifiesOnly reports whether a source's secret is a public key, which cannot sign.
func (c Contract) VerifiesOnly(secret string) bool {
	return c.PublicKeys || c.PublicKeyPrefix != "" && strings.HasPrefix(secret, c.PublicKeyPrefix)
}

// GaveUp returns how far the provider has come on its way to give up on the endpoint: 1 where it has, 0 where nothing
// is known of when it does. failures are those in a row, and lasted is the time from the first to the last.
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
	// Secrets are tried in order; the first that matches is reported.
	Secrets []Secret
	// MinSecret is the contract's; a provider that has one sets it before it reads the secrets.
	MinSecret int
	// Mode is the source's declared mode.
	Mode Mode
	// URL is the public URL as registered with the provider; needed where it is signed.
	URL string
	// Tolerance bounds the clock difference in both directions; zero means the provider's
	// default. It cannot be switched off.
	Tolerance time.Duration
	// Offline makes the verifier fetch nothing: a diagnosis must not spend the source's fetches.
	Offline bool
	// Options are the provider's own settings, e.g. "webhook_id" for PayPal.
	Options map[string]string
}

// Choice returns the option of that name, which has one of the values, or "" where it is left out.
func (s Settings) Choice(name string, values ...string) (string, error) {
	value := s.Options[name]
	if value == "" || slices.Contains(values, value) {
		return value, nil
	}
	return "", fmt.Errorf("source %s: options.%s: it is %q; use %s, or leave it out", s.Source, name, value,
		strings.Join(values, " or "))
}
