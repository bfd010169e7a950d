package webhook

import (
	"net/http"
	"strings"
	"time"
)

// Request is one delivery as received, before anything is parsed or trusted.
type Request struct {
	// Method is the HTTP method; deliveries are POST, some handshakes are GET.
	Method string
	// URL is the public URL of the source as registered with the provider, with the query of this request. It comes
	// from configuration, never from the Host header: schemes that sign the URL (Twilio, Square) would otherwise verify
	// a URL that an attacker chose.
	URL string
	// Header holds the request's headers under canonical names. Repeated headers keep their order.
	Header http.Header
	// Body holds the bytes as received, before any decoding.
	Body []byte
	// ReceivedAt is when the request arrived. Signed times are compared with it and not with the present time, so that
	// a kept request can be verified again later.
	ReceivedAt time.Time
	// Kept is set if the request comes from storage and its headers come from [Headers.OfRefusal], with hashes instead
	// of tokens. Never set it for a live request: the hash of a token would then be as good as the token.
	Kept bool
}

// CalledURL returns the URL that a provider calls for the registered one, with the query of the request. It omits the
// fragment, which is never sent; Twilio's holds connection overrides.
func CalledURL(registered, query string) string {
	base, _, _ := strings.Cut(registered, "#")
	base, _, _ = strings.Cut(base, "?")
	if query == "" {
		return base
	}
	return base + "?" + query
}

// Query returns the query of the request's URL.
func (r *Request) Query() string {
	_, query, _ := strings.Cut(r.URL, "?")
	return query
}

// HeaderOnce returns the value of the header name. A missing or empty header is an error of class [MissingHeader]. A
// header that is repeated with different values is rejected as malformed, because a proxy and a verifier could check
// different signatures.
func (r *Request) HeaderOnce(name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) == 0 || values[0] == "" && len(values) == 1 {
		return "", &Error{Class: MissingHeader, Detail: "header " + name + " is missing", Header: name}
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", Errorf(MalformedHeader, "header %s occurs %d times with different values", name, len(values))
		}
	}
	return values[0], nil
}

// HeaderID returns the event's ID from the header name, for providers that send it there. If the header is missing or
// has several values, the ID is the hash of the body. HeaderID notes an unusable value in e.
func (r *Request) HeaderID(e *Envelope, name string) (string, IDOrigin) {
	value, err := r.HeaderOnce(name)
	if err != nil {
		if class, _ := ClassOf(err); class == MalformedHeader {
			e.Note(InvalidEventID, "header "+name+" has several values")
		}
		return HashID(r.Body), FromHash
	}
	return e.UsableID(value, FromHeader)
}

// HeaderTag returns the value of the header name if it occurs once and can be stored and shown, else "".
func (r *Request) HeaderTag(name string) string {
	value, err := r.HeaderOnce(name)
	if err != nil {
		return ""
	}
	return Tag(value)
}
