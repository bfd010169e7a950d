package webhook

import (
	"context"
)

// Verifier checks the deliveries of one source. It is safe for concurrent use, does no I/O (but see
// [Preparer]) and keeps no state about requests.
type Verifier interface {
	// Verify reports which secret admits r, or an *[Error] with the class of the rejection.
	// It reads raw bytes only and compares in constant time.
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

// Preparer is implemented by a Verifier that checks with something which the provider hands out and may
// change at any time: the certificate that PayPal signs with.
type Preparer interface {
	// Prepare gets what Verify needs for r and does not have yet. It is called before Verify, may wait
	// for the network as long as ctx allows, and returns nil at once when nothing is missing. It calls mayAsk before
	// it has the provider asked for something that was never good, which anybody can make it want: the answer bounds
	// what one sender has us ask. An *[Error] refuses r; any other error says that nobody can know now, so that r
	// should come again.
	Prepare(ctx context.Context, r *Request, mayAsk func() bool) error
}

// Archive keeps what a provider hands out, by the URL where it was, for every process and for after a restart. It
// vouches for nothing: what it returns is checked as what comes from the network is.
type Archive interface {
	// Load returns all that is kept, and nothing where it cannot be read now.
	Load(ctx context.Context) map[string][]byte
	// Save keeps content. What cannot be kept now is fetched again another time.
	Save(ctx context.Context, url string, content []byte)
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
	SignedBody     Coverage = "signed-body"     // each byte
	SignedFields   Coverage = "signed-fields"   // some fields; what stands beside them may be anybody's
	SignedChecksum Coverage = "signed-checksum" // a checksum that other bodies can be made for, by who holds one delivery
	SharedToken    Coverage = "shared-token"    // nothing: the request showed a password
)
