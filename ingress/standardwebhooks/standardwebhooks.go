// Package standardwebhooks verifies Standard Webhooks 1.0.0 and Svix, which invented the scheme: It verifies v1
// signatures (HMAC-SHA256) and v1a signatures (ed25519). The reference libraries for Go verify only v1.
package standardwebhooks

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// tolerance is the tolerance of the reference libraries, in both directions.
const tolerance = 5 * time.Minute

// The names of the headers are one of these prefixes and "id", "timestamp" or "signature".
const (
	standard = "webhook-"
	svix     = "svix-"
)

// Keys have one of these prefixes: a symmetric secret, an ed25519 public key, or an ed25519 private key.
const (
	symmetricPrefix = "whsec_"
	publicPrefix    = "whpk_"
	privatePrefix   = "whsk_"

	// Polar's newer secrets have this prefix, and the whole text is the key (@polar-sh/sdk 0.49, validateEvent). The
	// underscores distinguish them from base64.
	polarPrefix = "polar_whs_"
)

// sample generates test events for both providers.
var sample = webhook.Sample{EventID: func() string { return "msg_" + rand.Text() }, Keys: webhook.NewWhsec}

// Provider is any sender that follows Standard Webhooks.
var Provider = webhook.Provider{
	Name: "standardwebhooks",
	Contract: contract(webhook.Contract{
		ID:           "header webhook-id",
		AnswerWithin: 15 * time.Second, // the specification advises senders to wait 15 to 30 s
		Retries:      "depends on the sender; the sample schedule in the specification takes about 75 h",
		RetryFor:     76 * time.Hour,
		Disables:     "after a 410 answer; otherwise it depends on the sender",
	}),
	New:    func(s webhook.Settings) (webhook.Verifier, error) { return newVerifier(s, standard) },
	Sign:   func(in webhook.SignInput) (webhook.SignOutput, error) { return sign(in, standard) },
	Sample: sample,
}

// Svix is Svix. Its headers have the prefix svix- or, if a sender hides that it uses Svix, webhook-.
var Svix = webhook.Provider{
	Name: "svix",
	Contract: contract(webhook.Contract{
		ID:            "header svix-id or webhook-id",
		AnswerWithin:  15 * time.Second,
		Retries:       "7 retries: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h",
		RetryFor:      28 * time.Hour,
		Disables:      "after 5 days in which all attempts failed",
		DisablesAfter: 5 * 24 * time.Hour,
	}),
	New:    func(s webhook.Settings) (webhook.Verifier, error) { return newVerifier(s, svix, standard) },
	Sign:   func(in webhook.SignInput) (webhook.SignOutput, error) { return sign(in, svix) },
	Sample: sample,
}

// contract sets the fields of c that both providers share.
func contract(c webhook.Contract) webhook.Contract {
	c.Scheme = "HMAC-SHA256 (v1) or ed25519 (v1a) of id.timestamp.body; the header may contain several signatures"
	c.Type = "type in the body, else event_type or eventType"
	c.Account = "none; pawl uses the name of the source"
	c.Object = "data.id in the body"
	c.OccurredAt = "timestamp in the body"
	c.Generic = true
	c.Identity = webhook.ByID
	c.Dedupe = "message ID"
	c.Tolerance = tolerance
	c.PublicKeyPrefix = publicPrefix
	c.Options = map[string]string{
		webhook.KeyEncoding: "how to decode the secret: `base64` (default) or `hex` decodes the part after `whsec_`; with `text`, the whole text is the key",
	}
	// If a request has the headers of both families, their values must be equal.
	for _, prefix := range []string{standard, svix} {
		c.Headers.Signatures = append(c.Headers.Signatures, prefix+"id", prefix+"timestamp", prefix+"signature")
	}
	return c
}

// verifier verifies the deliveries of one endpoint.
type verifier struct {
	ring      *webhook.Keyring[key]
	tolerance time.Duration
	prefixes  []string // the accepted prefixes of headers, the preferred prefix first
}

// key is a symmetric key or a public key. A symmetric key verifies only v1 signatures, and a public key only v1a
// signatures. Otherwise an attacker could use a public key as an HMAC key (algorithm confusion).
type key struct {
	symmetric []byte
	public    ed25519.PublicKey
}

// newVerifier returns the verifier of the source with settings s. It accepts headers with one of the prefixes. A secret
// is "whsec_" and base64 (the prefix may be missing), or "whpk_" and the base64 of an ed25519 public key, or Polar's
// "polar_whs_" and text.
func newVerifier(s webhook.Settings, prefixes ...string) (webhook.Verifier, error) {
	_, encodingErr := s.Choice(webhook.KeyEncoding, slices.Sorted(maps.Keys(keyEncodings))...)
	ring, ringErr := webhook.NewKeyring(s, func(value string) (key, error) { return parseKey(s, value) })
	tol, tolErr := s.ToleranceOr(tolerance)
	return webhook.AsVerifier(&verifier{ring, tol, prefixes}, errors.Join(encodingErr, ringErr, tolErr))
}

func parseKey(s webhook.Settings, value string) (key, error) {
	if strings.HasPrefix(value, privatePrefix) {
		return key{}, errors.New("it is the sender's private key; configure the public key, " + publicPrefix + "…")
	}
	if text, ok := strings.CutPrefix(value, publicPrefix); ok {
		public, err := webhook.Base64Key(text)
		if err == nil && len(public) != ed25519.PublicKeySize {
			err = errors.New("it is not an ed25519 public key of 32 bytes; copy the key again")
		}
		if err == nil {
			err = webhook.CheckEd25519(public)
		}
		return key{public: public}, err
	}
	symmetric, err := symmetricKey(value, s.Options[webhook.KeyEncoding])
	if err != nil {
		return key{}, err
	}
	return key{symmetric: symmetric}, webhook.CheckKey(s, symmetric)
}

// keyEncodings are the values of the option key_encoding.
var keyEncodings = map[string]func(value string) ([]byte, error){
	"base64": base64Key,
	"hex": func(value string) ([]byte, error) {
		return webhook.HexKey(strings.TrimPrefix(value, symmetricPrefix))
	},
	"text": webhook.TextKey,
}

// symmetricKey decodes a secret in the encoding of the source's option, base64 by default. It does not decode Polar's
// newer secrets.
func symmetricKey(value, encoding string) ([]byte, error) {
	if strings.HasPrefix(value, polarPrefix) {
		return webhook.TextKey(value)
	}
	if decode, known := keyEncodings[encoding]; known {
		return decode(value)
	}
	key, err := base64Key(value)
	if err != nil {
		err = fmt.Errorf("%w; if the secret is complete, the sender signs with the text itself (Polar did until September 2026): set options.%s: text", err, webhook.KeyEncoding)
	}
	return key, err
}

// base64Key decodes a secret in the format of the standard. Supabase's secrets start with the version of the signature,
// which base64Key removes.
func base64Key(value string) ([]byte, error) {
	return webhook.Base64Key(strings.TrimPrefix(strings.TrimPrefix(value, "v1,"), symmetricPrefix))
}

func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	list, err := v.header(r, "signature")
	if err != nil {
		return webhook.Match{}, err
	}
	id, err := v.header(r, "id")
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := v.header(r, "timestamp")
	if err != nil {
		return webhook.Match{}, err
	}
	at, err := webhook.ParseUnix("header "+v.family(r)+"timestamp", stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	signatures := parseSignatures(list)
	signed := []byte(id + "." + stamp + "." + string(r.Body))
	match, err := v.ring.Match(r.ReceivedAt, func(k key) bool { return signatures.fit(k, signed) })
	if err != nil {
		return webhook.Match{}, err
	}
	return match, r.CheckClock(at, v.tolerance)
}

// family returns the prefix of the headers that apply to r: the first prefix with which r has any of the three headers.
func (v *verifier) family(r *webhook.Request) string {
	for _, prefix := range v.prefixes {
		for _, name := range []string{"signature", "id", "timestamp"} {
			if len(r.Header.Values(prefix+name)) > 0 {
				return prefix
			}
		}
	}
	return v.prefixes[0]
}

// header returns the value of a header of r. If r has the header with both prefixes and two different values, header
// returns an error.
func (v *verifier) header(r *webhook.Request, name string) (string, error) {
	prefix := v.family(r)
	value, err := r.HeaderOnce(prefix + name)
	if err != nil {
		return "", err
	}
	for _, other := range []string{standard, svix} {
		for _, o := range r.Header.Values(other + name) {
			if o != value {
				return "", webhook.Errorf(webhook.MalformedHeader, "headers %s%s and %s%[2]s differ", prefix, name,
					other)
			}
		}
	}
	return value, nil
}

func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	if len(v.prefixes) == 1 && r.Header.Get(v.family(r)+"signature") == "" && r.Header.Get(svix+"signature") != "" {
		return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "the request has svix-* headers, which only the provider svix reads: set the provider of the source to svix"}}
	}
	list := r.Header.Get(v.family(r) + "signature")
	if s := parseSignatures(list); list == "" || len(s.v1)+len(s.v1a) > 0 {
		return nil
	}
	return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "the signature header contains neither a v1 nor a v1a signature, and pawl supports no other version"}}
}

// signatures holds the decoded entries of a signature header by version.
type signatures struct{ v1, v1a [][]byte }

// parseSignatures parses the first [webhook.MaxSignatures] entries "version,base64" of a space-separated list. It
// ignores unknown versions and undecodable entries, as the specification requires.
func parseSignatures(list string) signatures {
	var s signatures
	for entry := range strings.SplitSeq(list, " ") {
		if len(s.v1)+len(s.v1a) == webhook.MaxSignatures {
			break
		}
		version, text, _ := strings.Cut(entry, ",")
		switch version {
		case "v1":
			s.v1 = append(s.v1, webhook.DecodeBase64(text))
		case "v1a":
			s.v1a = append(s.v1a, webhook.DecodeBase64(text))
		}
	}
	return s
}

func (s signatures) fit(k key, signed []byte) bool {
	if k.public != nil {
		return slices.ContainsFunc(s.v1a, func(sig []byte) bool { return ed25519.Verify(k.public, signed, sig) })
	}
	return webhook.Fits(webhook.MAC(sha256.New, k.symmetric, signed), s.v1)
}

// Events implements [webhook.Verifier] and always returns one event. The specification recommends the fields type,
// timestamp and data, and requires none of them, so a missing field is not a problem.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	e := webhook.ReadEnvelope(r.Body)
	var event webhook.Event
	event.ID, event.IDOrigin = r.HeaderID(e, v.family(r)+"id")
	if strings.Contains(event.ID, ".") {
		// The signed parts are joined by dots. If an ID contains a dot, the signature also fits a shorter ID with
		// another time.
		e.Note(webhook.InvalidEventID, "header "+v.family(r)+"id contains a dot")
	}
	event.Type = e.FirstTag("type", "event_type", "eventType")
	event.Object = e.Tag("data.id")
	event.OccurredAt = e.Moment("timestamp")
	event.Problem = e.Problem()
	return []webhook.Event{event}
}
