package hmac

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// verifier verifies the deliveries of one source by a [Scheme].
type verifier struct {
	scheme   Scheme
	template template
	// url is what {url} stands for: the source's own, with its query. Of the one that was called anybody who holds a
	// delivery could choose the query, and move bytes between it and the body.
	url       string
	keys      *webhook.Keyring[[]byte]
	tolerance time.Duration
}

// newVerifier returns the verifier of the source that s describes, by the scheme. Its error names
// everything that is wrong with both.
func newVerifier(s webhook.Settings, scheme Scheme) (*verifier, error) {
	scheme = scheme.withDefaults()
	var faults []error
	if err := scheme.check(); err != nil {
		faults = append(faults, fmt.Errorf("source %s: %w", s.Source, err))
	}
	t, _ := parseTemplate(scheme.Template) // reported by check
	if t.has("url") && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		faults = append(faults, fmt.Errorf("source %s: url: the template signs it, and it is missing or no http(s) URL; set the public URL as it stands at the sender", s.Source))
	}
	keys, err := webhook.NewHMACKeyring(s, scheme.decodeKey)
	faults = append(faults, err)
	tolerance, err := s.ToleranceOr(scheme.Tolerance)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	url, _, _ := strings.Cut(s.URL, "#") // a fragment is never called
	return &verifier{scheme: scheme, template: t, url: url, keys: keys, tolerance: tolerance}, nil
}

// Headers implements [webhook.Headed].
func (v *verifier) Headers() webhook.Headers {
	h := webhook.Headers{Signatures: []string{v.scheme.Header, v.scheme.Timestamp.header()}}
	for _, place := range []Place{v.scheme.ID, v.scheme.Type, v.scheme.Account, v.scheme.Object, v.scheme.OccurredAt} {
		h.Plain = append(h.Plain, place.header())
	}
	return h
}

// Verify checks each signature of the header over the template, and the timestamp where there is
// one.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	match, _, err := v.admit(r)
	return match, err
}

// admit is Verify that also returns the key that admitted r.
func (v *verifier) admit(r *webhook.Request) (webhook.Match, []byte, error) {
	header, err := r.HeaderOnce(v.scheme.Header)
	if err != nil {
		return webhook.Match{}, nil, err
	}
	candidates, stamp, err := v.parseHeader(header)
	if err != nil {
		return webhook.Match{}, nil, err
	}
	values := map[string]string{"ts": stamp, "url": v.url, "method": r.Method}
	if name := v.scheme.Timestamp.header(); name != "" {
		if values["ts"], err = r.HeaderOnce(name); err != nil {
			return webhook.Match{}, nil, err
		}
	}
	if v.template.has("id") {
		if values["id"], err = r.HeaderOnce(v.scheme.ID.header()); err != nil {
			return webhook.Match{}, nil, err
		}
		for _, separator := range v.template.separators("id") {
			if strings.Contains(values["id"], separator) {
				// "a.1" and "2" would sign the same bytes as "a" and "1.2".
				return webhook.Match{}, nil, webhook.Errorf(webhook.MalformedHeader, "%s holds the template's separator", v.scheme.ID.header())
			}
		}
	}
	var at time.Time
	if v.template.has("ts") {
		if at, err = parseTime("the timestamp", values["ts"], v.scheme.TimestampUnit); err != nil {
			return webhook.Match{}, nil, err
		}
	}
	var key []byte
	signed := v.template.render(values, r.Body)
	match, err := v.keys.Match(r.ReceivedAt, func(k []byte) bool {
		key = k
		return webhook.Fits(webhook.MAC(v.scheme.newHash(), k, signed), candidates)
	})
	if refused, ok := errors.AsType[*webhook.Error](err); ok && v.template.has("url") && r.URL != v.url {
		err = webhook.Errorf(refused.Class, "%s; the query is not that of the source's url, which is signed: set the url as it stands at the sender", refused.Detail)
	}
	if err != nil {
		return webhook.Match{}, nil, err
	}
	if v.scheme.Timestamp.inBody() {
		if at, err = v.bodyTime(r.Body); err != nil {
			return webhook.Match{}, nil, err
		}
	}
	if v.scheme.Timestamp != "" {
		if err := r.CheckClock(at, v.tolerance); err != nil {
			return webhook.Match{}, nil, err
		}
	}
	return match, key, nil
}

// bodyTime returns the time of sending that the body holds.
func (v *verifier) bodyTime(body []byte) (time.Time, error) {
	text := webhook.ReadEnvelope(body).Text(v.scheme.Timestamp.path())
	at, err := parseTime("the timestamp", text, v.scheme.TimestampUnit)
	if err != nil {
		return time.Time{}, webhook.Errorf(webhook.MalformedBody, "the body holds no time at %s", v.scheme.Timestamp)
	}
	return at, nil
}

// maxHeader is the longest signature header, in bytes: sixteen signatures of SHA-512 in hex are 2 KiB.
const maxHeader = 8 << 10

// parseHeader returns the signatures of the header, undecodable ones left out, and the timestamp
// where it is an item of the header.
func (v *verifier) parseHeader(header string) (candidates [][]byte, stamp string, err error) {
	if len(header) > maxHeader {
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s has %d bytes", v.scheme.Header, len(header))
	}
	entries := []string{header}
	if v.scheme.Separator != "" {
		entries = strings.Split(header, v.scheme.Separator)
	}
	stamps, signatures := 0, 0
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if item := v.scheme.Timestamp.item(); item != "" {
			if value, ok := strings.CutPrefix(entry, item+"="); ok {
				stamp = value
				stamps++
				continue
			}
		}
		encoded, ok := strings.CutPrefix(entry, v.scheme.Prefix)
		if !ok {
			continue
		}
		signatures++
		if mac := v.scheme.decode(encoded); len(mac) > 0 && len(candidates) < webhook.MaxSignatures {
			candidates = append(candidates, mac)
		}
	}
	if signatures == 0 {
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s holds no entry with the prefix %q", v.scheme.Header, v.scheme.Prefix)
	}
	if v.scheme.Timestamp.item() != "" && stamps != 1 {
		return nil, "", webhook.Errorf(webhook.MalformedHeader, "%s holds %d timestamps", v.scheme.Header, stamps)
	}
	return candidates, stamp, nil
}

// Events reads the one event of r. A body that is no JSON is a problem only where the scheme looks
// into it.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	s := v.scheme
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:    webhook.Tag(s.Type.text(r, body)),
		Account: webhook.Tag(s.Account.text(r, body)),
		Object:  webhook.Tag(s.Object.text(r, body)),
	}
	if text := s.OccurredAt.text(r, body); text != "" {
		var err error
		if e.OccurredAt, err = parseTime("occurred_at", text, s.OccurredAtUnit); err != nil {
			body.Note(webhook.InvalidOccurredAt, string(s.OccurredAt))
		}
	}
	if e.Type == "" && s.Type.inBody() && body.Readable() {
		body.Note(webhook.MissingEventType, string(s.Type))
	}
	e.ID, e.IDOrigin = eventID(r, body, s.ID)
	// An account identifies, too: in a header nothing signs it, and the same bytes could be sent for another.
	unsignedAccount := s.Account.header() != ""
	switch {
	case unsignedAccount && e.IDOrigin == webhook.FromBody:
		e.Identity = webhook.ByIDOrBytes
	case !unsignedAccount && e.IDOrigin == webhook.FromHeader && v.template.has("id"):
		e.Identity = webhook.ByID
	}
	for _, p := range []Place{s.Timestamp, s.ID, s.Type, s.Account, s.Object, s.OccurredAt} {
		if p.inBody() {
			e.Problem = body.Problem()
		}
	}
	return []webhook.Event{e}
}

// eventID returns the ID at p. Without one the hash stands for the bytes, which is a problem only
// where the sender is known to give one in the body.
func eventID(r *webhook.Request, body *webhook.Envelope, p Place) (string, webhook.IDOrigin) {
	if name := p.header(); name != "" {
		return r.HeaderID(body, name)
	}
	text := p.text(r, body)
	if text == "" {
		if p.inBody() && body.Readable() {
			body.Note(webhook.MissingEventID, string(p))
		}
		return webhook.HashID(r.Body), webhook.FromHash
	}
	return body.UsableID(text, webhook.FromBody)
}
