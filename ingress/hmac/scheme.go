package hmac

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // some senders require it; collisions of SHA-1 do not break HMAC-SHA1
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Scheme describes how a sender signs its deliveries, and where they contain the fields of the event.
type Scheme struct {
	// Header is the name of the header with the signature.
	Header string
	// Prefix precedes each signature: "sha256=", "v0=". Entries without the prefix belong to other versions of the
	// scheme and are ignored. A header in which no entry has the prefix is malformed.
	Prefix string
	// Separator separates the entries of the header. It is "" if the header contains one signature.
	Separator string
	// Hash is sha256 (the default), sha512 or sha1.
	Hash string
	// Encoding is the encoding of the signature: hex (the default), base64 or base64url.
	Encoding string
	// KeyEncoding is the encoding of the secret: text (the default), hex or base64. DecodeKey, if set, replaces it.
	KeyEncoding string
	DecodeKey   func(value string) ([]byte, error)
	// Template is the signed string. It contains literal text and the fields {id} {ts} {body} {url} {method}. The
	// default is "{body}".
	Template string
	// Timestamp is the place of the time of sending, in TimestampUnit: s (the default), ms or rfc3339. The signature
	// must cover the timestamp, so it must be in the body or be {ts} in the template.
	Timestamp     Place
	TimestampUnit string
	// Tolerance is the default clock tolerance; zero means 5 minutes.
	Tolerance time.Duration
	// ID, Type, Account and Object are the places of the event's fields.
	ID, Type, Account, Object Place
	// Hook is the place of the ID of the webhook subscription.
	Hook Place
	// OccurredAt is the place of the event's time, in OccurredAtUnit: rfc3339 (the default), s or ms.
	OccurredAt     Place
	OccurredAtUnit string
}

// headers returns the headers that the scheme reads.
func (s Scheme) headers() webhook.Headers {
	h := webhook.Headers{Signatures: []string{s.Header, s.Timestamp.header()}}
	for _, place := range []Place{s.ID, s.Type, s.Account, s.Object, s.Hook, s.OccurredAt} {
		h.Plain = append(h.Plain, place.header())
	}
	return h
}

const defaultTolerance = 5 * time.Minute

// withDefaults returns s with defaults for its empty settings.
func (s Scheme) withDefaults() Scheme {
	s.Hash, s.Encoding = cmp.Or(s.Hash, "sha256"), cmp.Or(s.Encoding, "hex")
	s.KeyEncoding = cmp.Or(s.KeyEncoding, "text")
	s.Template, s.Tolerance = cmp.Or(s.Template, "{body}"), cmp.Or(s.Tolerance, defaultTolerance)
	s.TimestampUnit, s.OccurredAtUnit = cmp.Or(s.TimestampUnit, "s"), cmp.Or(s.OccurredAtUnit, "rfc3339")
	return s
}

// check returns an error with all faults of s. Each fault starts with the name of the option.
func (s Scheme) check() error {
	var faults []error
	fault := func(option, format string, args ...any) {
		faults = append(faults, fmt.Errorf("options."+option+": "+format, args...))
	}
	if s.Header == "" {
		fault("header", "it is missing; name the header that holds the signature")
	}
	for _, choice := range []struct {
		option, value string
		values        iter.Seq[string]
	}{
		{"hash", s.Hash, maps.Keys(hashes)},
		{"encoding", s.Encoding, maps.Keys(encodings)},
		{"key_encoding", s.KeyEncoding, maps.Keys(keyEncodings)},
		{"timestamp_unit", s.TimestampUnit, maps.Keys(units)},
		{"occurred_at_unit", s.OccurredAtUnit, maps.Keys(units)},
	} {
		if values := slices.Sorted(choice.values); !slices.Contains(values, choice.value) {
			fault(choice.option, "it is %q; use one of %s", choice.value, strings.Join(values, " "))
		}
	}
	for _, p := range []struct {
		option string
		place  Place
	}{
		{"timestamp", s.Timestamp}, {"id", s.ID}, {"type", s.Type}, {"account", s.Account}, {"object", s.Object},
		{"occurred_at", s.OccurredAt},
	} {
		if err := p.place.check(); err != nil {
			fault(p.option, "%w", err)
		} else if p.place.item() != "" && p.option != "timestamp" {
			fault(p.option, "only the timestamp can be in the signature header")
		}
	}
	t, err := parseTemplate(s.Template)
	if err != nil {
		fault("template", "%w", err)
	}
	switch timed := s.Timestamp != ""; {
	case slices.Contains(t, stampField) && (!timed || s.Timestamp.inBody()):
		fault("timestamp", "the template has {ts}; name the header with the timestamp")
	case timed && !s.Timestamp.inBody() && !slices.Contains(t, stampField):
		fault("timestamp", "the signature does not cover it; put {ts} into the template, or leave it out")
	}
	if s.Timestamp.item() != "" && s.Separator == "" {
		fault("separator", "the timestamp is an item of the signature header; set the separator of the items")
	}
	if slices.Contains(t, idField) && s.ID.header() == "" {
		fault("id", "the template has {id}; name the header with the ID")
	}
	return errors.Join(faults...)
}

// decodeKey returns the HMAC key of a secret.
func (s Scheme) decodeKey(value string) ([]byte, error) {
	if s.DecodeKey != nil {
		return s.DecodeKey(value)
	}
	if decode, known := keyEncodings[s.KeyEncoding]; known {
		return decode(value)
	}
	return webhook.TextKey(value) // check rejects an unknown encoding
}

// These maps hold the possible values of Hash, Encoding, KeyEncoding, and the units of times.
var (
	hashes       = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New}
	keyEncodings = map[string]func(value string) ([]byte, error){
		"text": webhook.TextKey, "hex": webhook.HexKey, "base64": webhook.Base64Key}
	encodings = map[string]encoding{
		"hex":       {hex.EncodeToString, webhook.DecodeHex},
		"base64":    {base64.StdEncoding.EncodeToString, webhook.DecodeBase64},
		"base64url": {base64.RawURLEncoding.EncodeToString, decodeBase64URL},
	}
	units = map[string]unit{
		"s":       {func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }, webhook.ParseUnix},
		"ms":      {func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }, webhook.ParseUnixMilli},
		"rfc3339": {func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }, parseISO},
	}
)

// encoding is the encoding of a signature. decode returns nil for any other text; a comparison of nil with a MAC always
// fails.
type encoding struct {
	encode func(mac []byte) string
	decode func(text string) []byte
}

// unit is the format of a time. The error of parse has class malformed_header and contains the name of the field.
type unit struct {
	format func(at time.Time) string
	parse  func(name, text string) (time.Time, error)
}

// decodeBase64URL is [webhook.DecodeBase64] for the URL alphabet, with or without padding.
func decodeBase64URL(text string) []byte {
	mac, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil
	}
	return mac
}

func parseISO(name, text string) (time.Time, error) {
	at := webhook.ParseMoment(text, time.RFC3339Nano, "2006-01-02T15:04:05Z0700")
	if at.IsZero() {
		return time.Time{}, webhook.Errorf(webhook.MalformedHeader, "%s is not an ISO 8601 time", name)
	}
	return at, nil
}
