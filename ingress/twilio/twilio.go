// Package twilio verifies Twilio's status callbacks and Event Streams.
//
// Source: twilio.com/docs/usage/security; twilio-python and twilio-node request validators. It is
// not built on twilio-go, which takes only the first value of a repeated parameter and so refuses
// valid requests.
//
// A voice or messaging URL wants TwiML back. This provider is for callbacks, which want a 2xx.
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
	idempotencyHeader = "I-Twilio-Idempotency-Token"
	formType          = "application/x-www-form-urlencoded"
)

// Provider is Twilio. Its secret is the account's primary auth token. Nothing is timed: only the
// dedupe stops a replay.
var Provider = webhook.Provider{
	Name: "twilio",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA1 of URL and sorted form parameters; JSON: of URL, with bodySHA256 in it; base64",
		ID:           "header I-Twilio-Idempotency-Token (unsigned), else a hash; Event Streams: item id",
		Type:         "<kind>.<status> of a message, call, recording or transcription, <kind>.<event> of a conference or room; EventType of others; Event Streams: item type",
		Account:      "AccountSid; Event Streams: item data.accountSid, AccountSid or account_sid",
		Object:       "the kind's SID, e.g. MessageSid, else ResourceSid or ConversationSid; Event Streams: item subject",
		OccurredAt:   "Timestamp; Event Streams: item time",
		Dedupe:       "idempotency token, or equal query and parameters: SID and status are among them",
		AnswerWithin: 15 * time.Second,
		Retries:      "one after a failed connection, more by connection overrides (#rc=) or a fallback URL",
		Disables:     "not published",
		Headers: webhook.Headers{Plain: []string{idempotencyHeader}, Signatures: []string{signatureHeader},
			Query: true},
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
		err = errors.Join(err, fmt.Errorf("source %s: url: Twilio signs it, and it is missing or no http(s) URL; set the public URL as it stands at Twilio, with its credentials if it has some", s.Source))
	}
	return webhook.AsVerifier(&verifier{keys}, err)
}

// Verify checks X-Twilio-Signature over the public URL and, for a form, its parameters. In a delivery with
// bodySHA256, the signature covers the URL and the hash covers the body. A body that is neither a form nor hashed is
// covered by nothing and is refused, whatever the signature.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	mac := webhook.DecodeBase64(signature)
	hashes := bodyHashes(r.URL)
	if len(hashes) == 0 {
		if len(r.Body) > 0 && !isForm(r) {
			return webhook.Refuse(webhook.NoMatchingSignature,
				"the body is no form and the URL holds no %s, so nothing signs it", bodyHashParam)
		}
		form, err := parseForm(r.Body)
		if err != nil {
			return webhook.Refuse(webhook.MalformedBody, "the form cannot be decoded")
		}
		return v.match(r, mac, signedParams(form))
	}
	match, err := v.match(r, mac, nil)
	if err != nil {
		return webhook.Match{}, err
	}
	// A form whose parameters came in the URL would name a body of whoever has a say in one of them.
	if account.MatchString(signedText(r.URL, nil)) {
		return webhook.Refuse(webhook.NoMatchingSignature,
			"the URL holds the parameters of a form, which nothing else signs")
	}
	sum := sha256.Sum256(r.Body)
	for _, hash := range hashes {
		// Both sides are public, so nothing is given away by comparing them as text.
		if !strings.EqualFold(hash, hex.EncodeToString(sum[:])) {
			return webhook.Refuse(webhook.BodyHashMismatch, "the body is not the one that %s in the URL names",
				bodyHashParam)
		}
	}
	return match, nil
}

// match compares mac with that of each URL that Twilio may have signed.
func (v *verifier) match(r *webhook.Request, mac, params []byte) (webhook.Match, error) {
	urls := signedURLs(r.URL)
	return v.keys.Match(r.ReceivedAt, func(key []byte) bool {
		found := false
		for _, u := range urls {
			if hmac.Equal(mac, webhook.MAC(sha1.New, key, []byte(u), params)) {
				found = true
			}
		}
		return found
	})
}

// signedParams returns the parameters as they are signed: name and value without separators,
// sorted by name; the values of a repeated name sorted and each once, as twilio-python and
// twilio-node do.
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

// isForm reports whether r is a form. A request without a content type is taken for one: it was
// that before Twilio sent anything else.
func isForm(r *webhook.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == formType
}

// sign makes a callback as Twilio does. A body that is no form gets its bodySHA256 into the URL, and the
// fragment, which holds connection overrides, stays at Twilio.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	in.URL, in.ContentType = withoutFragment(in.URL), cmp.Or(in.ContentType, formType)
	var params []byte
	if in.ContentType == formType {
		form, err := parseForm(in.Body)
		if err != nil {
			return webhook.SignOutput{}, fmt.Errorf("sign for twilio: body is no form: %w", err)
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
