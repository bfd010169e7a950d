package webhook

// Acknowledger is implemented by a Verifier whose provider counts only one status as success:
// Discord wants 204 for events, Linear and Paddle document exactly 200.
type Acknowledger interface {
	// Acknowledge returns the answer to send in place of the usual 202 or 200 for an authentic
	// delivery, once its events are committed or already held. It is never sent before that, and
	// never for a refusal.
	Acknowledge() Answer
}
