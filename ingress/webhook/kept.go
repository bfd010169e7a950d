package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Headers are the headers of a provider's deliveries that pawl keeps. Any other header may be the password of a proxy
// or of another provider.
type Headers struct {
	// Plain are no secret: they name the event, its kind, the try. They are kept with receipts and with refused
	// requests.
	Plain []string
	// Signatures are what a delivery is verified by. They are kept with refused requests, which can be verified again.
	Signatures []string
	// Tokens are secrets themselves. Their SHA-256 is kept, with refused requests only: it verifies again as well.
	Tokens []string
	// Query is set where the query that came is signed, and not that of the source's own URL. It is then kept with
	// refused requests.
	Query bool
}

// Headed is implemented by a Verifier whose settings name headers. Others have those of the contract.
type Headed interface {
	Headers() Headers
}

// HeadersOf returns the headers of the deliveries that v verifies for p.
func HeadersOf(p Provider, v Verifier) Headers {
	if h, ok := v.(Headed); ok {
		return h.Headers()
	}
	return p.Contract.Headers
}

// plain are the headers that tell of a request whoever sends it: the form of the body, the software, and the IDs under
// which it stands in a proxy's log.
var plain = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "User-Agent", "Via", "Date", "Traceparent", "X-Request-Id",
	"Request-Id",
	"X-Correlation-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Cloud-Trace-Context", "Cf-Ray",
}

// SchemeHeader is the header under which a receipt's [Coverage] is kept, and relayed. A request cannot bring it:
// nobody's headers have it.
const SchemeHeader = "Pawl-Scheme"

// OfReceipt returns the headers that are kept with the receipt of an admitted delivery. from stays as it is.
func (h Headers) OfReceipt(from http.Header) http.Header {
	kept := http.Header{}
	for name, values := range from {
		if named(plain, name) || named(h.Plain, name) {
			kept[name] = values
		}
	}
	return kept
}

// OfRefusal returns the headers that are kept with a refused request: enough to verify it again, as a [Request] that is
// marked as Kept. from stays as it is.
func (h Headers) OfRefusal(from http.Header) http.Header {
	kept := h.OfReceipt(from)
	for name, values := range from {
		switch {
		case named(h.Tokens, name):
			hashed := make([]string, len(values))
			for i, value := range values {
				hash := HashToken(value)
				hashed[i] = hex.EncodeToString(hash[:])
			}
			kept[name] = hashed
		case named(h.Signatures, name):
			kept[name] = values
		}
	}
	return kept
}

func named(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// TokenHash is the SHA-256 of a token.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// TokenOnce is [Request.HeaderOnce] for a header that holds a token. A kept request has the hash alone.
func (r *Request) TokenOnce(name string) (TokenHash, error) {
	value, err := r.HeaderOnce(name)
	if err != nil || !r.Kept {
		return HashToken(value), err
	}
	var hash TokenHash
	if n, err := hex.Decode(hash[:], []byte(value)); err != nil || n != len(hash) {
		return hash, Errorf(MalformedHeader, "header %s was not kept as a hash", name)
	}
	return hash, nil
}
