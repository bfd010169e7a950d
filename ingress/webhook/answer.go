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

// Acknowledger is implemented by a Verifier whose provider counts only one status as success:
// Discord wants 204 for events, Linear and Paddle document exactly 200.
type Acknowledger interface {
	// Acknowledge returns the answer to send in place of the usual 202 or 200 for an authentic
	// delivery, once its events are committed or already held. It is never sent before that, and
	// never for a rejection.
	Acknowledge() Answer
}
