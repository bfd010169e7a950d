package webhook

// Verifier verifies the deliveries of one source. It is safe for concurrent use and keeps no state between requests. It
// does no I/O, with one exception: PayPal's verifier fetches certificates, at most ten times a minute.
type Verifier interface {
	// Verify returns the secret that admits r, or an *[Error] with the class of the rejection. Any other error means
	// that r cannot be verified at present, and that the sender should retry. Verify reads only raw bytes and compares
	// in constant time.
	Verify(r *Request) (Match, error)
	// Events returns the events in a verified r; most providers send one. It never fails: an authentic payload that
	// cannot be parsed is one event with a Problem. An empty slice means that the delivery is authentic and contains no
	// event (a handshake, an empty batch).
	Events(r *Request) []Event
}

// AsVerifier returns v as a Verifier. If err is not nil, it returns a nil interface. An interface that contains a nil
// pointer would not be nil.
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
	// Covers is the part of the delivery that the signature protects. "" means the whole body.
	Covers Coverage
	// Transmission is a signed ID that the provider uses for one attempt of a delivery. It is set if the signature does
	// not cover all bytes. pawl parks a delivery with a known Transmission and other bytes as a suspected forgery.
	Transmission string
}

// Coverage is the part of a delivery that its signature protects.
type Coverage string

// These constants are in order, from the strongest protection to the weakest.
const (
	SignedBody   Coverage = "signed-body"   // the signature covers every byte of the body
	SignedFields Coverage = "signed-fields" // the signature covers some fields; the others are unverified
	// The signature covers a checksum. An attacker who has one delivery can construct another body with the same
	// checksum.
	SignedChecksum Coverage = "signed-checksum"
	SharedToken    Coverage = "shared-token" // nothing is signed: the request contains a password
)
