// Package twilio verifies Twilio's status callbacks and Event Streams.
//
// Source: twilio.com/docs/usage/security; twilio-python and twilio-node request validators. This package does not use
// twilio-go, which reads only the first value of a repeated parameter and so rejects valid requests.
//
// Twilio expects TwiML as the answer of a voice or messaging URL. Use this provider only for callbacks, which expect a
// 2xx.
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

// algorithms are the hash functions that the header X-Twilio-Webhooks-Signature-Settings can select. Without this
// header, Twilio signs with SHA-1.
var algorithms = map[string]func() hash.Hash{"HMAC_SHA1": sha1.New, "HMAC_SHA256": sha256.New}

// Provider is Twilio. The secret of a source is the primary auth token of the account. If a Webhooks Rule at Twilio
// selects a shared key, it is the secret of that key. Deliveries have no signed time, so only deduplication stops a
// replay.
var Provider = webhook.Provider{
	Name: "twilio",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA1 of the URL and the sorted form parameters, in base64. For JSON, the signature covers the URL, which contains the hash of the body (bodySHA256). Twilio uses HMAC-SHA256 if the header " + settingsHeader + " selects it",
		ID:           "header I-Twilio-Idempotency-Token, else the hash of query and parameters; Event Streams: id of each item",
		Type:         "KIND.STATUS of a message, call, recording or transcription (message.delivered); KIND.EVENT of a conference or room; other callbacks: EventType; Event Streams: type of each item",
		Account:      "AccountSid; Event Streams: data.accountSid, data.AccountSid or data.account_sid of each item",
		Object:       "the SID of the object, for example MessageSid, else ResourceSid or ConversationSid; Event Streams: subject of each item",
		OccurredAt:   "Timestamp; Event Streams: time of each item",
		Dedupe:       "idempotency token, else the hash of query and parameters, which contain SID and status",
		AnswerWithin: 15 * time.Second,
		Retries:      "one retry after a failed connection; more if you configure connection overrides (#rc=) or a fallback URL",
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
		err = errors.Join(err, fmt.Errorf("source %s: url: it is missing or not an http(s) URL, and Twilio signs the URL; set the public URL exactly as Twilio has it, with its credentials if it contains any", s.Source))
	}
	return webhook.AsVerifier(&verifier{keys}, err)
}

// algorithm returns the hash function of r's signature. The settings header selects it; without this header, it is
// SHA-1.
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
	text := fmt.Sprintf("the header %s is %q: the secret of the source must be the secret of the key that this header "+
		"names, not the auth token. The algorithm must be one of %s",
		settingsHeader, settings, strings.Join(slices.Sorted(maps.Keys(algorithms)), ", "))
	return []webhook.Hint{{Code: webhook.UnknownScheme, Text: text}}
}

// Verify checks X-Twilio-Signature, which covers the public URL and the parameters of a form. If the URL contains
// bodySHA256, Verify compares it with the hash of the body. It rejects a body that is neither a form nor hashed, even
// with a valid signature, because such a body is not protected.
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
	// An attacker could move the parameters of a form into the URL and use one of them as bodySHA256.
	if account.MatchString(signedText(r.URL, nil)) {
		return webhook.Refuse(webhook.NoMatchingSignature,
			"the URL contains the parameters of a form")
	}
	sum := sha256.Sum256(r.Body)
	for _, hash := range hashes {
		// Both hashes are public, so the comparison need not take constant time.
		if !strings.EqualFold(hash, hex.EncodeToString(sum[:])) {
			return webhook.Refuse(webhook.BodyHashMismatch, "the hash of the body differs from %s in the URL",
				bodyHashParam)
		}
	}
	return match, nil
}

// match compares mac with the MAC of each spelling of the URL that Twilio may have signed.
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

// signedParams returns the parameters as Twilio signs them: names and values without separators, sorted by name. The
// values of a repeated name are sorted and deduplicated, as in twilio-python and twilio-node.
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

// isForm reports whether r is a form. It treats a request without a content type as a form.
func isForm(r *webhook.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == formType
}

// sign signs a callback as Twilio does. If the body is not a form, sign adds bodySHA256 to the URL. It removes the
// fragment, which contains connection overrides.
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
