package hmac

import (
	"crypto/sha1" //nolint:gosec // for senders that sign with it; HMAC-SHA1 is not broken by SHA-1's collisions
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Scheme says how a sender signs its deliveries, and where in them its envelope stands.
type Scheme struct {
	// Header is the name of the header with the signature.
	Header string
	// Prefix stands before each signature: "sha256=", "v0=". An entry without it is of another
	// version of the scheme and is ignored; a header of nothing else is malformed.
	Prefix string
	// Separator stands between the entries of the header; "" for a header of one signature.
	Separator string
	// Hash is sha256 (the default), sha512 or sha1.
	Hash string
	// Encoding of the signature is hex (the default), base64 or base64url.
	Encoding string
	// KeyEncoding of the secret is text (the default), hex or base64. DecodeKey, where set, reads secrets instead.
	KeyEncoding string
	DecodeKey   func(value string) ([]byte, error)
	// Template is the signed string, of literals and {id} {ts} {body} {url} {method}; the default
	// is "{body}".
	Template string
	// Timestamp is where the time of sending stands, in TimestampUnit: s (the default), ms or
	// rfc3339. It must be under the signature: in the body, or as {ts} in the template.
	Timestamp     Place
	TimestampUnit string
	// Tolerance is the default clock tolerance; zero means 5 minutes.
	Tolerance time.Duration
	// ID, Type, Account and Object are where the envelope's fields stand.
	ID, Type, Account, Object Place
	// OccurredAt is where the time of the fact stands, in OccurredAtUnit: rfc3339 (the default), s
	// or ms.
	OccurredAt     Place
	OccurredAtUnit string
}

// headers returns those of a delivery that the scheme names.
func (s Scheme) headers() webhook.Headers {
	h := webhook.Headers{Signatures: []string{s.Header, s.Timestamp.header()}}
	for _, place := range []Place{s.ID, s.Type, s.Account, s.Object, s.OccurredAt} {
		h.Plain = append(h.Plain, place.header())
	}
	return h
}

const defaultTolerance = 5 * time.Minute

// withDefaults returns s with its empty settings filled in.
func (s Scheme) withDefaults() Scheme {
	for _, d := range []struct {
		setting  *string
		standard string
	}{
		{&s.Hash, "sha256"}, {&s.Encoding, "hex"}, {&s.KeyEncoding, "text"}, {&s.Template, "{body}"},
		{&s.TimestampUnit, "s"}, {&s.OccurredAtUnit, "rfc3339"},
	} {
		if *d.setting == "" {
			*d.setting = d.standard
		}
	}
	if s.Tolerance == 0 {
		s.Tolerance = defaultTolerance
	}
	return s
}

// check reports everything that is wrong with s, each fault with the option's name.
func (s Scheme) check() error {
	var faults []error
	fault := func(option, format string, args ...any) {
		faults = append(faults, fmt.Errorf("options."+option+": "+format, args...))
	}
	if s.Header == "" {
		fault("header", "it is missing; name the header that holds the signature")
	}
	for _, enum := range []struct{ option, value, values string }{
		{"hash", s.Hash, "sha256 sha512 sha1"},
		{"encoding", s.Encoding, "hex base64 base64url"},
		{"key_encoding", s.KeyEncoding, "text hex base64"},
		{"timestamp_unit", s.TimestampUnit, "s ms rfc3339"},
		{"occurred_at_unit", s.OccurredAtUnit, "s ms rfc3339"},
	} {
		if !strings.Contains(" "+enum.values+" ", " "+enum.value+" ") {
			fault(enum.option, "it is %q; use one of %s", enum.value, enum.values)
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
			fault(p.option, "only the timestamp can stand in the signature header")
		}
	}
	t, err := parseTemplate(s.Template)
	if err != nil {
		fault("template", "%w", err)
	}
	switch timed := s.Timestamp != ""; {
	case t.has("ts") && (!timed || s.Timestamp.inBody()):
		fault("timestamp", "the template has {ts}; say in which header it stands")
	case timed && !s.Timestamp.inBody() && !t.has("ts"):
		fault("timestamp", "nothing signs it; put {ts} into the template or leave it out")
	}
	if s.Timestamp.item() != "" && s.Separator == "" {
		fault("separator", "the timestamp is an item of the signature header; say what stands between its items")
	}
	if t.has("id") && s.ID.header() == "" {
		fault("id", "the template has {id}; say in which header it stands")
	}
	return errors.Join(faults...)
}

// newHash returns the hash of the scheme.
func (s Scheme) newHash() func() hash.Hash {
	switch s.Hash {
	case "sha512":
		return sha512.New
	case "sha1":
		return sha1.New
	}
	return sha256.New
}

// decodeKey decodes a secret.
func (s Scheme) decodeKey(value string) ([]byte, error) {
	switch {
	case s.DecodeKey != nil:
		return s.DecodeKey(value)
	case s.KeyEncoding == "hex":
		return webhook.HexKey(value)
	case s.KeyEncoding == "base64":
		return webhook.Base64Key(value)
	}
	return webhook.TextKey(value)
}

// decode decodes a signature; nil, which no MAC equals, when it cannot.
func (s Scheme) decode(text string) []byte {
	switch s.Encoding {
	case "base64":
		return webhook.DecodeBase64(text)
	case "base64url":
		mac, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return nil
		}
		return mac
	}
	return webhook.DecodeHex(text)
}

// encode is the reverse of decode.
func (s Scheme) encode(mac []byte) string {
	switch s.Encoding {
	case "base64":
		return base64.StdEncoding.EncodeToString(mac)
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(mac)
	}
	return hex.EncodeToString(mac)
}

// parseTime reads a time in the unit. Its error is of class malformed_header and calls the text by
// name.
func parseTime(name, text, unit string) (time.Time, error) {
	switch unit {
	case "s":
		return webhook.ParseUnix(name, text)
	case "ms":
		return webhook.ParseUnixMilli(name, text)
	}
	at := webhook.ParseMoment(text, time.RFC3339Nano, "2006-01-02T15:04:05Z0700")
	if at.IsZero() {
		return time.Time{}, webhook.Errorf(webhook.MalformedHeader, "%s is not an ISO 8601 time", name)
	}
	return at, nil
}

// formatTime is the reverse of parseTime.
func formatTime(at time.Time, unit string) string {
	switch unit {
	case "s":
		return strconv.FormatInt(at.Unix(), 10)
	case "ms":
		return strconv.FormatInt(at.UnixMilli(), 10)
	}
	return at.UTC().Format(time.RFC3339Nano)
}
