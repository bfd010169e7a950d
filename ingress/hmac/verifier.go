package hmac

import (
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Verifier verifies the deliveries of one source by a [Scheme]. The verifiers of providers with their own code embed
// it.
type Verifier struct {
	scheme   Scheme
	hash     func() hash.Hash
	encoding encoding
	unit     unit
	template template
	// url is the value of {url}: the configured URL of the source with its query. The query of the request is not part
	// of it. An attacker with a captured delivery could otherwise move bytes between the query and the body.
	url       string
	keys      *webhook.Keyring[[]byte]
	tolerance time.Duration
}

// NewVerifier returns the verifier of the source with settings s, by the scheme. Its error names all faults of s and of
// the scheme.
func NewVerifier(s webhook.Settings, scheme Scheme) (*Verifier, error) {
	scheme = scheme.withDefaults()
	var faults []error
	if err := scheme.check(); err != nil {
		faults = append(faults, fmt.Errorf("source %s: %w", s.Source, err))
	}
	t, _ := parseTemplate(scheme.Template) // reported by check
	if slices.Contains(t, urlField) && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		faults = append(faults, fmt.Errorf("source %s: url: the sender signs it, and it is missing or not an http(s) URL; "+
			"set the public URL exactly as the sender has it", s.Source))
	}
	keys, err := webhook.NewHMACKeyring(s, scheme.decodeKey)
	faults = append(faults, err)
	tolerance, err := s.ToleranceOr(scheme.Tolerance)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	url, _, _ := strings.Cut(s.URL, "#") // a client never sends the fragment
	return &Verifier{scheme: scheme, hash: hashes[scheme.Hash], encoding: encodings[scheme.Encoding],
		unit: units[scheme.TimestampUnit], template: t, url: url, keys: keys, tolerance: tolerance}, nil
}

// Verify compares each signature in the header with the HMAC of the template. If one of them fits and the scheme has a
// timestamp, Verify then checks the timestamp.
func (v *Verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	match, _, err := v.Admit(r)
	return match, err
}

// Admit is Verify, and also returns the key that admitted r.
func (v *Verifier) Admit(r *webhook.Request) (webhook.Match, []byte, error) {
	match, key, at, err := v.match(r)
	if err != nil || v.scheme.Timestamp == "" {
		return match, key, err
	}
	if v.scheme.Timestamp.inBody() {
		if at, err = v.bodyTime(webhook.ReadEnvelope(r.Body)); err != nil {
			return match, key, nil // authentic: SchemeProblem reports the fault
		}
	}
	check := r.CheckClock
	if v.scheme.TimestampUnit == "ms" {
		check = r.CheckClockMilli
	}
	if err := check(at, v.tolerance); err != nil {
		return webhook.Match{}, nil, err
	}
	return match, key, nil
}

// bodyTime parses the time of sending in the body.
func (v *Verifier) bodyTime(body *webhook.Envelope) (time.Time, error) {
	return v.unit.parse("the timestamp", body.Text(v.scheme.Timestamp.path()))
}

// SchemeProblem returns the [webhook.Problem] of a request with a correct signature, or "". There are two such
// problems: the age of the request is unknown, or the signature also fits another ID. A verifier that overrides Events
// must call SchemeProblem.
func (v *Verifier) SchemeProblem(r *webhook.Request, body *webhook.Envelope) string {
	problems := &webhook.Envelope{}
	if v.scheme.Timestamp.inBody() {
		if _, err := v.bodyTime(body); err != nil {
			problems.Note(webhook.MissingTimestamp, v.scheme.Timestamp.path())
		}
	}
	if slices.Contains(v.template, idField) {
		id := r.Header.Get(v.scheme.ID.header())
		for _, separator := range v.template.besideID() {
			if strings.Contains(id, separator) {
				problems.Note(webhook.InvalidEventID, v.scheme.ID.header()+" contains the separator of the signed text")
			}
		}
	}
	return problems.Problem()
}

// match checks the signatures, and returns the secret and the key that fit. at is the signed time, or zero if the
// template has no {ts}.
func (v *Verifier) match(r *webhook.Request) (match webhook.Match, key []byte, at time.Time, err error) {
	header, err := r.HeaderOnce(v.scheme.Header)
	if err != nil {
		return webhook.Match{}, nil, at, err
	}
	candidates, stamp, err := v.signatures(header)
	if err != nil {
		return webhook.Match{}, nil, at, err
	}
	signed := values{ts: stamp, url: v.url, method: r.Method}
	if name := v.scheme.Timestamp.header(); name != "" {
		if signed.ts, err = r.HeaderOnce(name); err != nil {
			return webhook.Match{}, nil, at, err
		}
	}
	if slices.Contains(v.template, idField) {
		if signed.id, err = r.HeaderOnce(v.scheme.ID.header()); err != nil {
			return webhook.Match{}, nil, at, err
		}
	}
	if slices.Contains(v.template, stampField) {
		if at, err = v.unit.parse("the timestamp", signed.ts); err != nil {
			return webhook.Match{}, nil, at, err
		}
	}
	parts := v.template.parts(signed, r.Body)
	match, err = v.keys.Match(r.ReceivedAt, func(k []byte) bool {
		key = k
		return webhook.Fits(webhook.MAC(v.hash, k, parts...), candidates)
	})
	refused, ok := errors.AsType[*webhook.Error](err)
	if ok && slices.Contains(v.template, urlField) && r.URL != v.url {
		err = webhook.Errorf(refused.Class, "%s; the sender signs the url, and the query of the request differs from the query of the source's url: set the url exactly as the sender has it", refused.Detail)
	}
	return match, key, at, err
}

// maxHeader is the maximum length of a signature header in bytes. Sixteen SHA-512 signatures in hex have 2 KiB.
const maxHeader = 8 << 10

// signatures returns the first [webhook.MaxSignatures] signatures of the header that can be decoded, and the timestamp
// if it is an item of the header. During a rotation, a provider sends one signature for each secret. Entries of other
// versions are ignored, so that a new version of the scheme does not break the old version.
func (v *Verifier) signatures(header string) (candidates [][]byte, stamp string, err error) {
	if len(header) > maxHeader {
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s has %d bytes", v.scheme.Header, len(header))
	}
	item := v.scheme.Timestamp.item()
	entries := []string{header}
	if v.scheme.Separator != "" {
		entries = strings.Split(header, v.scheme.Separator)
	}
	stamps, found := 0, 0
	for _, entry := range entries {
		if len(entries) > 1 && item == "" {
			entry = strings.TrimSpace(entry)
		}
		if value, ok := strings.CutPrefix(entry, item+"="); ok && item != "" {
			if stamps++; stamps > 1 && value != stamp { // the signed one is unknown
				return nil, "",
					webhook.Errorf(webhook.MalformedHeader, "%s contains two different timestamps", v.scheme.Header)
			}
			stamp = value
			continue
		}
		encoded, ok := strings.CutPrefix(entry, v.scheme.Prefix)
		switch {
		case !ok && item != "" && !strings.Contains(entry, "="):
			return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s contains a part without =", v.scheme.Header)
		case !ok:
			continue
		}
		found++
		if mac := v.encoding.decode(encoded); len(mac) > 0 && len(candidates) < webhook.MaxSignatures {
			candidates = append(candidates, mac)
		}
	}
	switch {
	case item == "" && found == 0:
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s contains no entry with the prefix %q",
			v.scheme.Header, v.scheme.Prefix)
	case item != "" && stamps == 0:
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s contains no timestamp", v.scheme.Header)
	}
	return candidates, stamp, nil
}

// Events returns the one event of r. A body that is not JSON is a problem only if the scheme reads fields from the
// body.
func (v *Verifier) Events(r *webhook.Request) []webhook.Event {
	s := v.scheme
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:    s.Type.text(r, body),
		Account: webhook.Tag(s.Account.text(r, body)),
		Object:  webhook.Tag(s.Object.text(r, body)),
		Hook:    webhook.Tag(s.Hook.text(r, body)),
	}
	if text := s.OccurredAt.text(r, body); text != "" {
		var err error
		if e.OccurredAt, err = units[s.OccurredAtUnit].parse("occurred_at", text); err != nil {
			body.Note(webhook.InvalidOccurredAt, s.OccurredAt.path())
		}
	}
	e.ID, e.IDOrigin = eventID(r, body, s.ID)
	switch {
	case e.Type != "" && webhook.Tag(e.Type) == "":
		e.Type = ""
		body.Note(webhook.InvalidEventType, s.Type.path())
	case e.Type == "" && s.Type.inBody() && body.Readable():
		body.Note(webhook.MissingEventType, s.Type.path())
	}
	// The account is part of the event's identity. An account in a header is unsigned: an attacker could send the same
	// bytes for another account.
	unsignedAccount := s.Account.header() != ""
	switch {
	case unsignedAccount && e.IDOrigin == webhook.FromBody:
		e.Identity = webhook.ByIDOrBytes
	case !unsignedAccount && e.IDOrigin == webhook.FromHeader && slices.Contains(v.template, idField):
		e.Identity = webhook.ByID
	}
	for _, p := range []Place{s.Timestamp, s.ID, s.Type, s.Account, s.Object, s.OccurredAt} {
		if p.inBody() {
			e.Problem = body.Problem()
		}
	}
	if e.Problem == "" {
		e.Problem = v.SchemeProblem(r, body)
	}
	return []webhook.Event{e}
}

// eventID returns the ID at p. If the ID is missing, eventID returns the hash of the body, and notes a problem if p is
// in the body.
func eventID(r *webhook.Request, body *webhook.Envelope, p Place) (string, webhook.IDOrigin) {
	if name := p.header(); name != "" {
		return r.HeaderID(body, name)
	}
	text := p.text(r, body)
	if text == "" {
		if p.inBody() && body.Readable() {
			body.Note(webhook.MissingEventID, p.path())
		}
		return webhook.HashID(r.Body), webhook.FromHash
	}
	return body.UsableID(text, webhook.FromBody)
}
