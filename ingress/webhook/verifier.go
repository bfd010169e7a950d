package webhook

// Verifier checks the deliveries of one source. It is safe for concurrent use and keeps no state about requests. It
// does no I/O, except that PayPal's fetches a certificate, within seconds and ten times a minute at most.
type Verifier interface {
	// Verify reports which secret admits r, or an *[Error] with the class of the rejection. Any other error says that
	// nobody can know now, so that r should come again. It reads raw bytes only and compares in constant time.
	Verify(r *Request) (Match, error)
	// Events reads the events that a verified r carries; most providers send one. It never
	// fails: an authentic payload that cannot be read is one event whose Problem says why.
	// An empty slice means that the delivery is authentic and carries no event (a handshake,
	// an empty batch).
	Events(r *Request) []Event
}

// AsVerifier returns v as a Verifier, and a nil Verifier beside an error: a nil pointer in an
// interface would not be nil.
func AsVerifier[V Verifier](v V, err error) (Verifier, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Match says which secret admitted a request.
type Match struct {
	// Secret is the label of the secret, never its value.
	Secret string
	// Covers is what the signature holds fast; "" means the bytes of the body.
	Covers Coverage
	// Transmission is an ID under the signature that the provider uses for one sending. It is set where the signature
	// does not hold the bytes fast: other bytes under it are then suspected, and not run.
	Transmission string
}

// Coverage is what of a delivery its sender vouches for: how much it is worth.
type Coverage string

// From the strongest to the weakest.
const (
	SignedBody   Coverage = "signed-body"   // each byte
	SignedFields Coverage = "signed-fields" // some fields; anybody may have written the others
	// a checksum that other bodies can be made for, by who holds one delivery
	SignedChecksum Coverage = "signed-checksum"
	SharedToken    Coverage = "shared-token" // nothing: the request showed a password
)
