package hmac

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Provider verifies any sender that the options of a source describe, see the package comment.
var Provider = webhook.Provider{
	Name: "hmac",
	Contract: webhook.Contract{
		Scheme:  "HMAC of a text that options.template describes",
		Generic: true,
		ID:      "the place in options.id, else the hash of the body",
		Type:    "the place in options.type",
		Account: "SOURCE/ACCOUNT, the name of the source and the value at the place in options.account; without this option, the name of the source",
		Object:  "the place in options.object",
		Dedupe:  "the ID at the place in options.id, else the hash of the body",
		Retries: "depends on the sender", Disables: "depends on the sender",
		OccurredAt: "the place in options.occurred_at",
		Tolerance:  defaultTolerance,
		Options: map[string]string{
			acknowledgeOption:  "the status of the answer to an authentic delivery: `200`, `201`, `202` or `204`. Set it if the sender retries after any other status. Without this option, the status is 202 for a new event and 200 for a duplicate",
			"header":           "required: the name of the header with the signatures",
			"prefix":           "the text before each signature, such as `sha256=`",
			"separator":        "the text between several signatures in the header",
			"hash":             "the hash function of the HMAC: `sha256` (default), `sha512` or `sha1`",
			"encoding":         "the encoding of the signature: `hex` (default), `base64` or `base64url`",
			"key_encoding":     "the encoding of the secret: `text` (default), `hex` or `base64`",
			"template":         "the signed text: literal text and the fields `{id} {ts} {body} {url} {method}`. It must contain `{body}`, which is the default",
			"timestamp":        "the place of the time of sending. It may also be `signature:KEY`, an item `KEY=…` of the signature header",
			"timestamp_unit":   "the format of the time of sending: `s` (default), `ms` or `rfc3339`",
			"id":               "the place of the event's ID. Without this option, the hash of the body is the ID",
			"type":             "the place of the event's type: `header:NAME` or a JSON pointer such as `/type`",
			"account":          "the place of the account. pawl stores SOURCE/ACCOUNT as the account of the event, or SOURCE without this option",
			"object":           "the place of the ID of the event's object",
			"occurred_at":      "the place of the time at which the event happened",
			"occurred_at_unit": "the format of the time at which the event happened: `rfc3339` (default), `s` or `ms`",
		},
	},
	New: func(s webhook.Settings) (webhook.Verifier, error) {
		scheme, optionsErr := schemeOf(s.Options)
		if optionsErr != nil {
			optionsErr = fmt.Errorf("source %s: %w", s.Source, optionsErr)
		}
		answer, answerErr := s.Choice(acknowledgeOption, slices.Sorted(maps.Keys(acknowledgements))...)
		v, err := NewVerifier(s, scheme)
		return webhook.AsVerifier(configured{v, acknowledgements[answer]}, errors.Join(optionsErr, answerErr, err))
	},
	Sign: func(in webhook.SignInput) (webhook.SignOutput, error) {
		scheme, err := schemeOf(in.Options)
		if err != nil {
			return webhook.SignOutput{}, fmt.Errorf("sign for hmac: %w", err)
		}
		return Sign(scheme, in)
	},
	Sample: webhook.Sample{Options: map[string]string{"header": "X-Signature", "id": "/id", "type": "/type"}},
}

// acknowledgeOption is the key in Settings.Options for the status of the answer, for senders that accept only one
// status as success.
const acknowledgeOption = "acknowledge"

// acknowledgements are the possible values of acknowledgeOption.
var acknowledgements = map[string]int{"200": http.StatusOK, "201": http.StatusCreated, "202": http.StatusAccepted,
	"204": http.StatusNoContent}

// configured is the verifier of a source that describes its sender in options.
type configured struct {
	*Verifier
	status int // 0 means the default answer
}

// Acknowledge returns an answer with the configured status.
func (v configured) Acknowledge() webhook.Answer { return webhook.Answer{Status: v.status} }

func (v configured) Headers() webhook.Headers { return v.scheme.headers() }

// Wrap adds provider-specific behaviour to the verifier of a source, and validates the options that it reads. If other
// settings of the source are invalid, New calls it with a nil Verifier, so that the error names every fault.
type Wrap func(*Verifier, webhook.Settings) (webhook.Verifier, error)

// New returns p as a provider that signs with scheme. It sets p.New, and p.Sign if it is nil. In the contract it sets
// the clock tolerance, the headers and the places of the fields. wrap may be nil.
func New(p webhook.Provider, scheme Scheme, wrap Wrap) webhook.Provider {
	c := &p.Contract
	if scheme.Timestamp != "" {
		c.Tolerance = scheme.withDefaults().Tolerance
	}
	named := scheme.headers()
	c.Headers.Plain = append(named.Plain, c.Headers.Plain...)
	c.Headers.Signatures = append(named.Signatures, c.Headers.Signatures...)
	c.ID = cmp.Or(c.ID, scheme.ID.words(), "none; pawl uses the hash of the body")
	c.Type, c.Account = cmp.Or(c.Type, scheme.Type.words()), cmp.Or(c.Account, scheme.Account.words())
	c.Object, c.OccurredAt = cmp.Or(c.Object, scheme.Object.words()), cmp.Or(c.OccurredAt, scheme.OccurredAt.words())
	p.New = func(s webhook.Settings) (webhook.Verifier, error) {
		s.MinSecret = p.Contract.MinSecret
		v, err := NewVerifier(s, scheme)
		if wrap == nil {
			return webhook.AsVerifier(v, err)
		}
		wrapped, wrapErr := wrap(v, s)
		return webhook.AsVerifier(wrapped, errors.Join(err, wrapErr))
	}
	if p.Sign == nil {
		p.Sign = func(in webhook.SignInput) (webhook.SignOutput, error) { return Sign(scheme, in) }
	}
	return p
}

// schemeOf parses a scheme from the options of a source. It rejects an unknown key, because a misspelt "timestamp"
// would disable the clock check.
func schemeOf(options map[string]string) (Scheme, error) {
	var s Scheme
	settings := map[string]*string{
		"header": &s.Header, "prefix": &s.Prefix, "separator": &s.Separator, "hash": &s.Hash, "encoding": &s.Encoding,
		"key_encoding": &s.KeyEncoding, "template": &s.Template, "timestamp": (*string)(&s.Timestamp),
		"timestamp_unit": &s.TimestampUnit,
		"id":             (*string)(&s.ID), "type": (*string)(&s.Type), "account": (*string)(&s.Account),
		"object":      (*string)(&s.Object),
		"occurred_at": (*string)(&s.OccurredAt), "occurred_at_unit": &s.OccurredAtUnit,
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(options)) {
		setting, known := settings[key]
		switch {
		case known:
			*setting = options[key]
		case key != webhook.AllowShortSecrets && key != acknowledgeOption:
			faults = append(faults,
				fmt.Errorf("options.%s: there is no such option; the options are %v", key,
					append(slices.Sorted(maps.Keys(settings)), acknowledgeOption)))
		}
	}
	return s, errors.Join(faults...)
}

// Sign signs a delivery with the scheme. If the scheme has a timestamp in the body, the caller must write it into the
// body.
func Sign(scheme Scheme, in webhook.SignInput) (webhook.SignOutput, error) {
	scheme = scheme.withDefaults()
	if err := scheme.check(); err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign by HMAC: %w", err)
	}
	key, err := scheme.decodeKey(in.Secret)
	if err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign by HMAC: secret: %w", err)
	}
	t, err := parseTemplate(scheme.Template)
	if err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign by HMAC: %w", err)
	}
	stamp := units[scheme.TimestampUnit].format(in.At)
	signed := t.parts(values{id: in.ID, ts: stamp, url: in.URL, method: http.MethodPost}, in.Body)
	signature := scheme.Prefix + encodings[scheme.Encoding].encode(webhook.MAC(hashes[scheme.Hash], key, signed...))
	if item := scheme.Timestamp.item(); item != "" {
		signature = item + "=" + stamp + scheme.Separator + signature
	}
	return in.Output(scheme.ID.header(), in.ID, scheme.Type.header(), in.Type, scheme.Account.header(), in.Account,
		scheme.Timestamp.header(), stamp, scheme.Header, signature), nil
}
