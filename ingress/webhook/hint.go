package webhook

// Hinter is implemented by a Verifier whose provider has mistakes of its own to tell: a thin event at
// the endpoint of snapshots, a signature header without a scheme that counts.
type Hinter interface {
	// Hints tells the peculiarities of a request that Verify refused. It trusts nothing in the request and admits
	// nothing.
	Hints(r *Request) []Hint
}

// Hint is one peculiarity, for an operator's eyes. It holds no secret, signature or part of the body.
type Hint struct {
	// Code is a stable word.
	Code string
	// Text is a sentence that says what to do about it.
	Text string
}

// The codes that several providers use.
const (
	UnknownScheme = "unknown_scheme"
	ThinEvent     = "thin_event_on_snapshot_source"
	SnapshotEvent = "snapshot_event_on_thin_source"
)
