package webhook

// Hinter is implemented by a Verifier if its provider has typical misconfigurations, such as a thin event at an
// endpoint for snapshots, or a signature header without a supported scheme.
type Hinter interface {
	// Hints explains a request that Verify rejected. It trusts nothing in the request and admits nothing.
	Hints(r *Request) []Hint
}

// Hint is one explanation for an operator. It contains no secret, signature or part of the body.
type Hint struct {
	// Code is a stable identifier.
	Code string
	// Text is a sentence with the action to take.
	Text string
}

// These are the values of [Hint].Code that the verifiers of several providers return.
const (
	UnknownScheme = "unknown_scheme"
	ThinEvent     = "thin_event_on_snapshot_source"
	SnapshotEvent = "snapshot_event_on_thin_source"
)
