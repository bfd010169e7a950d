package webhook

import (
	"context"
)

// Verifier checks the deliveries of one source. It is safe for concurrent use, does no I/O (but see
// [Preparer]) and keeps no state about requests.
type Verifier interface {
	// Verify reports which secret admits r, or an *[Error] with the class of the refusal.
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
	// for the network as long as ctx allows, and returns nil at once when nothing is missing. An *[Error]
	// refuses r; any other error says that nobody can know now, so that r should come again.
	Prepare(ctx context.Context, r *Request) error
}

// Match says which secret admitted a request.
type Match struct {
	// Secret is the label of the secret, never its value.
	Secret string
}
