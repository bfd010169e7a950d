package webhook

// Verifier verifies the deliveries of one source. It is safe for concurrent use and keeps no state between requests. It
// does no I/O, except that PayPal's fetches a certificate, within seconds and at most ten times a minute.
type Verifier interface {
	// Verify returns the secret that admits r, or an *[Error] with the class of the rejection. Any other error means
	// that it cannot decide at present, and r should be sent again. It reads raw bytes only and compares in constant
	// time.
	Verify(r *Request) (Match, error)
	// Events returns the events in a verified r; most providers send one. It never fails: an authentic payload that
	// cannot be parsed is one event with a Problem. An empty slice means that the delivery is authentic and contains no
	// event (a handshake, an empty batch).
	Events(r *Request) []Event
}

// AsVerifier returns v as a Verifier, or a nil Verifier with an error: a nil pointer in an interface would not be nil.
func AsVerifier[V Verifier](v V, err error) (Verifier, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Match describes how a request was admitted.
type Match struct {
	// Secret is the label of the secret, never its value.
	Secret string
	// Covers is the part that the signature protects; "" means the bytes of the body.
	Covers Coverage
	// Transmission is a signed ID that the provider uses for one sending. It is set if the signature does not protect
	// the bytes. Other bytes with the same Transmission are suspected and not run.
	Transmission string
}

// Coverage is the part of a delivery that its signature protects.
type Coverage string

// From the strongest to the weakest.
const (
	SignedBody   Coverage = "signed-body"   // every byte of the body
	SignedFields Coverage = "signed-fields" // some fields; the others are unverified
	// a checksum: the holder of one delivery can construct another body with the same checksum
	SignedChecksum Coverage = "signed-checksum"
	SharedToken    Coverage = "shared-token" // nothing: the request contained a password
)
