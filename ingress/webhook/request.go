package webhook

import (
	"net/http"
	"strings"
	"time"
)

// Request is one delivery as received. Nothing in it is parsed or verified.
type Request struct {
	// Method is the HTTP method; deliveries are POST, some handshakes are GET.
	Method string
	// URL is the public URL of the source as registered with the provider, with the query of this request. The URL
	// comes from the configuration, never from the Host header. Otherwise an attacker could choose the URL that is
	// verified if the signature covers the URL (Twilio, Square).
	URL string
	// Header holds the request's headers under canonical names. Repeated headers keep their order.
	Header http.Header
	// Body holds the bytes as received, before any decoding.
	Body []byte
	// ReceivedAt is when the request arrived. The clock check uses this time instead of the present time, so that a
	// stored request can be verified again later.
	ReceivedAt time.Time
	// Kept is set if the request was read from the database. Its headers then come from [Headers.OfRefusal] and contain
	// hashes instead of tokens. Never set Kept for a live request: a sender could then authenticate with the hash of a
	// token.
	Kept bool
}

// CalledURL returns the registered URL with the query of the request. It omits the fragment, because clients do not
// send it. (Twilio reads connection overrides from the fragment.)
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

// HeaderOnce returns the value of the header name. If the header is missing or empty, the error has class
// [MissingHeader]. If the header occurs with different values, the error has class [MalformedHeader], because a proxy
// and a verifier could check different signatures.
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

// HeaderID returns the event's ID from the header name. If the header is missing or has several values, the ID is the
// hash of the body. If the value is unusable, HeaderID notes a problem in e.
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

// HeaderTag returns the value of the header name. It returns "" if the header does not occur exactly once, or if its
// value cannot be a routing field, see [Tag].
func (r *Request) HeaderTag(name string) string {
	value, err := r.HeaderOnce(name)
	if err != nil {
		return ""
	}
	return Tag(value)
}
