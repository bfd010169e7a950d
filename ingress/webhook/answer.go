package webhook

// Answerer is implemented by a Verifier if its provider expects a special answer to some verified requests, such as
// Slack's url_verification or Discord's ping.
type Answerer interface {
	// Answer returns the answer to r. It returns false if r gets the default answer. The ingress calls it only with
	// requests that Verify admitted.
	Answer(r *Request) (Answer, bool)
}

// Acknowledger is implemented by a Verifier if the settings of its source choose the answer to an authentic delivery.
// That answer overrides [Contract].Acknowledge.
type Acknowledger interface {
	// Acknowledge returns the answer. A zero status means the default answer.
	Acknowledge() Answer
}

// Answer is an HTTP answer that a provider requires.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}
