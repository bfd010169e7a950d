package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Headers lists the headers of a provider's deliveries that pawl stores. Any other header might hold a password of a
// proxy or of another provider.
type Headers struct {
	// Plain lists headers without secrets: the ID and type of the event, the number of the attempt. They are stored
	// with receipts and with rejected requests.
	Plain []string
	// Signatures lists the signature headers. They are stored with rejected requests, so that these can be verified
	// again.
	Signatures []string
	// Tokens lists headers that are secrets. Their SHA-256 is stored, with rejected requests only; it suffices to
	// verify the request again.
	Tokens []string
	// Query is set if the signature covers the query of the request rather than of the source's own URL. The query is
	// then stored with rejected requests.
	Query bool
}

// Headed is implemented by a Verifier if its settings name headers. The headers of the contract apply otherwise.
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

// plain lists headers that are stored for every provider: the format of the body, the software, and the IDs of the
// request in a proxy's log.
var plain = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "User-Agent", "Via", "Date", "Traceparent", "X-Request-Id",
	"Request-Id",
	"X-Correlation-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Cloud-Trace-Context", "Cf-Ray",
}

// SchemeHeader is the header under which a receipt stores its [Coverage], and which relays forward. No provider lists
// it in its Headers, so a request cannot set it.
const SchemeHeader = "Pawl-Scheme"

// OfReceipt returns the headers to store with the receipt of an admitted delivery. It does not change from.
func (h Headers) OfReceipt(from http.Header) http.Header {
	kept := http.Header{}
	for name, values := range from {
		if named(plain, name) || named(h.Plain, name) {
			kept[name] = values
		}
	}
	return kept
}

// OfRefusal returns the headers to store with a rejected request: enough to verify it again, as a [Request] with Kept
// set. It does not change from.
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

// TokenOnce is [Request.HeaderOnce] for a header with a token. A kept request has only the hash.
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
