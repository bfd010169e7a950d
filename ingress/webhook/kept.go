package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Headers lists the headers of a provider's deliveries that pawl stores. pawl stores no other header, because it might
// contain a password of a proxy or of another provider.
type Headers struct {
	// Plain lists headers without secrets, for example the ID and the type of the event. They are stored with receipts
	// and with rejected requests.
	Plain []string
	// Signatures lists the signature headers. They are stored with rejected requests, so that pawl can verify these
	// requests again.
	Signatures []string
	// Tokens lists headers that contain secrets. pawl stores only their SHA-256, and only with rejected requests. The
	// SHA-256 is enough to verify the request again.
	Tokens []string
	// Query is set if the signature covers the query that the sender added to the source's URL. The query is then
	// stored with rejected requests.
	Query bool
}

// Headed is implemented by a Verifier if the settings of its source name headers. Otherwise the headers of the contract
// apply.
type Headed interface {
	Headers() Headers
}

// HeadersOf returns the headers that pawl stores for deliveries that v verifies. p is the provider of v.
func HeadersOf(p Provider, v Verifier) Headers {
	if h, ok := v.(Headed); ok {
		return h.Headers()
	}
	return p.Contract.Headers
}

// plain lists headers that are stored for every provider. They contain the format of the body, the name of the sending
// program, and the IDs of the request in the log of a proxy.
var plain = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "User-Agent", "Via", "Date", "Traceparent", "X-Request-Id",
	"Request-Id",
	"X-Correlation-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Cloud-Trace-Context", "Cf-Ray",
}

// SchemeHeader is the header in which a receipt stores the [Coverage] of its delivery. Relays forward this header. No
// provider lists it in its Headers, so a sender cannot set it.
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

// TokenOnce is [Request.HeaderOnce] for a header with a token, and returns the token's hash. A stored request contains
// only the hash.
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
