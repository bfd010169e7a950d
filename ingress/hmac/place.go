package hmac

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Place states where a request contains a value:
//
//	header:X-Acme-Delivery   the header of that name
//	signature:t              the item "t=…" of the signature header (Stripe's and Calendly's form)
//	/data/object/id          a JSON pointer (RFC 6901) into the body
//
// An empty Place means that the sender does not send the value. A JSON pointer may contain keys of objects, but no
// array index and no key with a dot.
type Place string

const (
	inHeader    = "header:"
	inSignature = "signature:"
)

// inBody reports whether p is a JSON pointer. The signature covers the value, because it covers the body.
func (p Place) inBody() bool { return strings.HasPrefix(string(p), "/") }

// header returns the name of the header in p, or "" if p is not a header.
func (p Place) header() string {
	name, ok := strings.CutPrefix(string(p), inHeader)
	if !ok {
		return ""
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// item returns KEY if p is signature:KEY, and "" otherwise.
func (p Place) item() string {
	key, _ := strings.CutPrefix(string(p), inSignature)
	if key == string(p) {
		return ""
	}
	return key
}

// path returns p as a path of [webhook.Envelope]: keys joined by dots.
func (p Place) path() string {
	keys := strings.Split(strings.TrimPrefix(string(p), "/"), "/")
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
	}
	return strings.Join(keys, ".")
}

// words describes p for docs/providers.md.
func (p Place) words() string {
	switch {
	case p.inBody():
		return p.path() + " in the body"
	case p.header() != "":
		return strings.Replace(string(p), inHeader, "header ", 1)
	}
	return ""
}

// check returns an error if p is invalid.
func (p Place) check() error {
	_, _, unusable := webhook.UsableID(string(p), webhook.FromBody)
	switch {
	case p == "":
		return nil
	case unusable != "":
		return fmt.Errorf("it is longer than %d bytes or contains unprintable characters", webhook.MaxEventID)
	case p.header() != "", p.item() != "":
		return nil
	case p.inBody() && len(p) > 1 && !strings.Contains(string(p), "."):
		return nil
	}
	return fmt.Errorf("%q is neither header:NAME nor signature:KEY nor a JSON pointer such as /data/id", string(p))
}

// text returns the string or number at p. It returns "" if the request has no such value.
func (p Place) text(r *webhook.Request, body *webhook.Envelope) string {
	switch {
	case p.inBody():
		return body.Text(p.path())
	case p.header() != "":
		return r.Header.Get(p.header())
	}
	return ""
}
