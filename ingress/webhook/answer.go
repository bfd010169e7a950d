package webhook

// Answerer is implemented by a Verifier whose provider wants an answer of its own to some
// verified requests: Slack's url_verification, Discord's ping.
type Answerer interface {
	// Answer returns the answer for r and true, or false for the usual one. It is only called with a
	// request that Verify admitted.
	Answer(r *Request) (Answer, bool)
}

// Answer is an HTTP answer that a provider asks for.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}
