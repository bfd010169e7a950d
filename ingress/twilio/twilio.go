// Package twilio verifies Twilio's status callbacks and Event Streams.
//
// Source: twilio.com/docs/usage/security; twilio-python and twilio-node request validators. It does not use twilio-go,
// which reads only the first value of a repeated parameter and so rejects valid requests.
//
// A voice or messaging URL must answer with TwiML. This provider is for callbacks, which expect a 2xx.
package twilio

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's scheme; HMAC-SHA1 is not broken by SHA-1's collisions.
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader   = "X-Twilio-Signature"
	settingsHeader    = "X-Twilio-Webhooks-Signature-Settings"
	idempotencyHeader = "I-Twilio-Idempotency-Token"
	formType          = "application/x-www-form-urlencoded"
)

// algorithms are the hashes that the settings header can select. Without the header, Twilio signs with SHA-1.
var algorithms = map[string]func() hash.Hash{"HMAC_SHA1": sha1.New, "HMAC_SHA256": sha256.New}

// Provider is Twilio. Its secret is the account's primary auth token or, if a Webhooks Rule selects a shared key, the
// secret of that key. Deliveries have no signed time: only deduplication stops a replay.
var Provider = webhook.Provider{
	Name: "twilio",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA1, or HMAC-SHA256 if " + settingsHeader + " names it, of URL and sorted form parameters; for JSON of the URL, which contains bodySHA256; base64",
		ID:           "header I-Twilio-Idempotency-Token (unsigned), else a hash; Event Streams: item id",
		Type:         "<kind>.<status> of a message, call, recording or transcription, <kind>.<event> of a conference or room; EventType of others; Event Streams: item type",
		Account:      "AccountSid; Event Streams: item data.accountSid, AccountSid or account_sid",
		Object:       "the kind's SID, e.g. MessageSid, else ResourceSid or ConversationSid; Event Streams: item subject",
		OccurredAt:   "Timestamp; Event Streams: item time",
		Dedupe:       "idempotency token, or equal query and parameters: SID and status are among them",
		AnswerWithin: 15 * time.Second,
		Retries:      "one after a failed connection, more by connection overrides (#rc=) or a fallback URL",
		Disables:     "not published",
		Headers: webhook.Headers{Plain: []string{idempotencyHeader},
			Signatures: []string{signatureHeader, settingsHeader}, Query: true},
		DeliversByGET: true,
	},
	New:  newVerifier,
	Sign: sign,
	Sample: webhook.Sample{
		Type:    "message.delivered",
		EventID: func() string { return "SM" + webhook.RandomHex(32) },
	},
}

type verifier struct {
	keys *webhook.Keyring[[]byte]
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	keys, err := webhook.NewHMACKeyring(s, webhook.TextKey)
	if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		err = errors.Join(err, fmt.Errorf("source %s: url: Twilio signs it, and it is missing or not an http(s) URL; set the public URL exactly as Twilio has it, with its credentials if it has any", s.Source))
	}
	return webhook.AsVerifier(&verifier{keys}, err)
}

// algorithm returns the hash that r is signed with. The settings header selects it. If the header is present, the
// weaker hash is not tried.
func algorithm(r *webhook.Request) (func() hash.Hash, error) {
	if len(r.Header.Values(settingsHeader)) == 0 {
		return sha1.New, nil
	}
	settings, err := r.HeaderOnce(settingsHeader)
	if err != nil {
		return nil, err
	}
	name := ""
	for setting := range strings.SplitSeq(settings, ",") {
		if value, found := strings.CutPrefix(strings.TrimSpace(setting), "algorithm="); found {
			name = value
		}
	}
	if newHash, known := algorithms[name]; known {
		return newHash, nil
	}
	return nil, webhook.Errorf(webhook.MalformedHeader, "%s must name one of the algorithms %s", settingsHeader,
		strings.Join(slices.Sorted(maps.Keys(algorithms)), " and "))
}

// Hints explains the settings header, which selects the algorithm and the key.
func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	settings := webhook.Tag(r.Header.Get(settingsHeader))
	if settings == "" {
		return nil
	}
	return []webhook.Hint{{Code: webhook.UnknownScheme, Text: fmt.Sprintf("its %s are %q: the source's secret must be "+
		"the secret of that key, and not the auth token, and the algorithm must be one of %s", settingsHeader, settings,
		strings.Join(slices.Sorted(maps.Keys(algorithms)), ", "))}}
}

// Verify checks X-Twilio-Signature over the public URL and, for a form, its parameters. In a delivery with bodySHA256,
// the signature covers the URL and the hash covers the body. A body that is neither a form nor hashed is unprotected
// and is rejected even with a valid signature.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	newHash, err := algorithm(r)
	if err != nil {
		return webhook.Match{}, err
	}
	mac := webhook.DecodeBase64(signature)
	hashes := bodyHashes(r.URL)
	if len(hashes) == 0 {
		if len(r.Body) > 0 && !isForm(r) {
			return webhook.Refuse(webhook.NoMatchingSignature,
				"the body is not a form and the URL has no %s, so the body is unsigned", bodyHashParam)
		}
		form, err := parseForm(string(r.Body))
		if err != nil {
			return webhook.Refuse(webhook.MalformedBody, "the form cannot be read: %s", err)
		}
		return v.match(r, newHash, mac, signedParams(form))
	}
	match, err := v.match(r, newHash, mac, nil)
	if err != nil {
		return webhook.Match{}, err
	}
	// If the parameters of a form were moved into the URL, an attacker could choose one of them to be the hash of the
	// body.
	if account.MatchString(signedText(r.URL, nil)) {
		return webhook.Refuse(webhook.NoMatchingSignature,
			"the URL contains the parameters of a form")
	}
	sum := sha256.Sum256(r.Body)
	for _, hash := range hashes {
		// Both sides are public, so comparing them as text reveals nothing.
		if !strings.EqualFold(hash, hex.EncodeToString(sum[:])) {
			return webhook.Refuse(webhook.BodyHashMismatch, "the hash of the body differs from %s in the URL",
				bodyHashParam)
		}
	}
	return match, nil
}

// match compares mac with the MAC of each URL that Twilio may have signed.
func (v *verifier) match(r *webhook.Request, newHash func() hash.Hash, mac, params []byte) (webhook.Match, error) {
	urls := signedURLs(r.URL)
	return v.keys.Match(r.ReceivedAt, func(key []byte) bool {
		found := false
		for _, u := range urls {
			if hmac.Equal(mac, webhook.MAC(newHash, key, []byte(u), params)) {
				found = true
			}
		}
		return found
	})
}

// signedParams returns the parameters as signed: names and values without separators, sorted by name; the values of a
// repeated name are sorted and deduplicated, as in twilio-python and twilio-node.
func signedParams(form url.Values) []byte {
	var signed []byte
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Sorted(slices.Values(form[name]))
		for _, value := range slices.Compact(values) {
			signed = append(append(signed, name...), value...)
		}
	}
	return signed
}

// isForm reports whether r is a form. A request without a content type counts as a form, because Twilio originally sent
// only forms.
func isForm(r *webhook.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == formType
}

// sign makes a callback as Twilio does. It puts the bodySHA256 of a body that is not a form into the URL, and removes
// the fragment, which holds connection overrides.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	in.URL, in.ContentType = withoutFragment(in.URL), cmp.Or(in.ContentType, formType)
	var params []byte
	if in.ContentType == formType {
		form, err := parseForm(string(in.Body))
		if err != nil {
			return webhook.SignOutput{}, fmt.Errorf("sign for twilio: body is not a form: %w", err)
		}
		params = signedParams(form)
	} else {
		separator := "?"
		if strings.Contains(in.URL, "?") {
			separator = "&"
		}
		sum := sha256.Sum256(in.Body)
		in.URL += separator + bodyHashParam + "=" + hex.EncodeToString(sum[:])
	}
	mac := webhook.MAC(sha1.New, []byte(in.Secret), []byte(in.URL), params)
	return in.Output(signatureHeader, base64.StdEncoding.EncodeToString(mac), idempotencyHeader, in.ID), nil
}
