package webhook

import (
	"net/http"
	"strings"
	"time"
)

// Request is one delivery as it came in. Nothing in it has been parsed or trusted.
type Request struct {
	// Method is the HTTP method; deliveries are POST, some handshakes are GET.
	Method string
	// URL is the public URL of the source with the query of this request, exactly as the
	// provider was given it. It comes from configuration, never from the Host header: schemes
	// that sign the URL (Twilio, Square) would otherwise verify what an attacker chose.
	URL string
	// Header holds the request's headers under canonical names, repeated ones in order.
	Header http.Header
	// Body holds the bytes as received, before any decoding.
	Body []byte
	// ReceivedAt is when the request came in. Clocks are checked against it and never against
	// the time of the check, so that a kept request can be verified again later.
	ReceivedAt time.Time
	// Kept is set where the request does not come from the network and its headers are those of [Headers.OfRefusal]: of
	// tokens there are hashes. Never set it for a live request, or whoever reads a hash has the token.
	Kept bool
}

// CalledURL returns the URL that a provider calls for the registered one, with the query that came. A fragment is never
// called: Twilio's holds connection overrides.
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

// HeaderOnce returns the value of the header name when it stands in the request exactly once.
// A header that is repeated with different values is how a proxy and a verifier come to check
// different signatures, so it is refused as malformed; a missing or empty one has class
// [MissingHeader].
func (r *Request) HeaderOnce(name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) == 0 || values[0] == "" && len(values) == 1 {
		return "", &Error{Class: MissingHeader, Detail: "header " + name + " is missing", Header: name}
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", Errorf(MalformedHeader, "header %s stands %d times with different values", name, len(values))
		}
	}
	return values[0], nil
}

// HeaderID returns the event's ID from the header name of r, for the providers that put it there. The ID is the
// body's hash when the header is missing or has several values; an unusable value is noted in e.
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

// HeaderTag returns the value of the header name where it stands in r once and can be stored and
// shown, else "".
func (r *Request) HeaderTag(name string) string {
	value, err := r.HeaderOnce(name)
	if err != nil {
		return ""
	}
	return Tag(value)
}
