package effect

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Call identifies one effect of one run.
type Call struct {
	// Key identifies the business effect and not the run. A retry, a replay, a reset, and a second event for the same
	// fact have the same key.
	Key string
	// Kind is the stable name of the kind of effect, e.g. "receipt-email".
	Kind string
	// Round counts the retries that operators have requested. A finished effect is repeated only if its round is
	// higher than the round in the ledger; see [Result.Round].
	Round int
	// Ref identifies the event that causes the effect.
	event.Ref
	// Compensates is the key of the effect that this effect undoes. It is "" for an effect that is not an undo.
	Compensates string
	// After lists the keys of effects that must be settled before this effect starts. A key that ends with a colon
	// matches every key with that prefix.
	After []string `json:",omitempty"`
	// AsOf is the start of the workflow task that scheduled the effect, or zero if unknown. An attempt that outlives
	// this task does not overwrite the receipt status that a later task has set.
	AsOf time.Time
	// WaitingSince is when the run began to wait in this round without an attempt. It is zero if the run is not
	// waiting.
	WaitingSince time.Time `json:",omitzero"`
	// Timeout is the timeout of one attempt. It overrides [Policy.Timeout] unless it is zero. A flow passes the value
	// that it read at its start, because the activity timeout depends on it.
	Timeout time.Duration
	// ByHand is set if a person confirms that the effect has happened. Nothing is sent; the effect is recorded as
	// done.
	ByHand *ByHand `json:",omitempty"`
}

// Check returns a [Foreign] error if mode differs from the mode of the call's event.
func (c Call) Check(mode string) error {
	if mode != c.Mode {
		return Foreign(c.Ref, nil)
	}
	return nil
}

// ByHand records who confirmed an effect, why, and where the proof is.
type ByHand struct {
	Actor, Reason string
	// Reference is the identifier in the outside system, e.g. the number of a journal entry.
	Reference string
}

// Policy configures how an effect is attempted.
type Policy struct {
	// Timeout is the timeout of one attempt, unless the call overrides it.
	Timeout time.Duration
	// Gate limits the requests to the sink of the effect. It is nil if the effect has no sink.
	Gate *Gate
	// Retries configures the automatic retries.
	Retries Retries
	// KeyLifetime is how long the sink remembers an idempotency key. After that time, the sink could apply a repeated
	// request twice, so the effect becomes uncertain instead. Zero means forever.
	KeyLifetime time.Duration
	// Marks promises that fn calls [Attempt.Commit] before the effect can happen. If an attempt then has no outcome,
	// the effect has not happened unless Commit was called. If Marks is false, the effect may have happened.
	Marks bool
	// Exclusive names a resource that only one effect may use at a time. "" means no such resource.
	Exclusive string
	// About is the account of the effect, with its mode. "" means that no other effect has the same account. The
	// circuit breaker counts failures per account, because the sink may fail only for one account.
	About string
	// ByHand writes pawl's own tables when a person confirms the effect, and returns the value for the ledger. If it
	// is nil, the ledger stores only the reference.
	ByHand func(a *Attempt, reference string) any
}

func (p Policy) about(c Call) string { return cmp.Or(p.About, c.Key) }

// lease returns the duration of a claim: one attempt, the time to record its outcome, and half a second of slack.
func (p Policy) lease() time.Duration { return p.Timeout + recording + 500*time.Millisecond }

// State is the outcome of an effect for the flow.
type State string

// These are the states of an effect.
const (
	Done        State = "done"         // done by this call
	AlreadyDone State = "already_done" // done before this call, by this or another event
	Skipped     State = "skipped"      // an operator or newer state made it obsolete
	Compensated State = "compensated"  // done before this call, and undone since then
	Refused     State = "refused"      // the sink permanently refused the request
	// Failed: automatic retries cannot finish it, because the retry time is used up or the fault is pawl's own.
	Failed    State = "failed"
	Uncertain State = "uncertain" // it may or may not have happened; a person decides
	// Waits: not attempted yet, because the sink is down or paused, it is too early, or another effect must finish
	// first.
	Waits State = "waits"
)

// Known reports whether s is one of these states.
func (s State) Known() bool {
	return s.Settled() || s == Refused || s == Failed || s == Uncertain || s == Waits
}

// Settled reports whether the effect needs no further work.
func (s State) Settled() bool {
	return s == Done || s == AlreadyDone || s == Skipped || s == Compensated
}

// Result is the outcome of an effect. Workflow histories contain it, so it holds no personal data.
type Result struct {
	State State
	// By is the ID of the event that executed the effect, if it was another event.
	By string `json:",omitempty"`
	// Reason is why the effect is not done, in pawl's words. The sink's own text is stored only in the ledger.
	Reason string `json:",omitempty"`
	// Value is the value that the effect returned, as stored in the ledger. It is empty if the effect is not done.
	Value json.RawMessage `json:",omitempty"`
	// Unanswered is set if the effect is not done and any attempt got no response. The effect may have happened or may
	// still happen, even if later attempts failed or it was skipped.
	Unanswered bool `json:",omitempty"`
	// Wait is the delay before the next check, if State is Waits.
	Wait time.Duration `json:",omitempty"`
	// Held is set if the effect waits because its sink is down or paused.
	Held bool `json:",omitempty"`
	// First is the key of the effect that must finish first, or "" if the effect waits for something else.
	First string `json:",omitempty"`
	// Round is the ledger's round of an effect that is not done. It can be higher than the caller's round, because
	// another run, or this run before a reset, may have tried it in later rounds.
	Round int `json:",omitempty"`
	// Met is set if the ledger already contained the outcome, so that this call made no attempt.
	Met bool `json:",omitempty"`
}

// MayHaveHappened reports whether the effect is done or may have been done, so that compensation must include it.
func (r Result) MayHaveHappened() bool {
	switch r.State {
	case Done, AlreadyDone, Uncertain:
		return true
	case Refused, Failed:
		return r.Unanswered
	}
	return false
}

// Attempt is the state of one attempt, passed to fn.
type Attempt struct {
	// IdempotencyKey is the key to send to a sink that remembers keys. It has at most 255 bytes. It is the key of the
	// effect, with a suffix for later generations. If the key is too long, it contains a hash instead.
	IdempotencyKey string
	// Request holds the bytes to send. They are the bytes of the first attempt, even if the caller passed different
	// ones now.
	Request []byte
	// Repeat is set if an earlier attempt had the same idempotency key. The response may then be the response to that
	// attempt.
	Repeat bool
	// Age is the time since the first attempt with this idempotency key.
	Age time.Duration
	// Correlation is the event's correlation ID.
	Correlation string
	// Trying is the time since the first attempt in the current round.
	Trying time.Duration

	commit func() error
	lost   func(at time.Time) error
	also   []ledger.Statement
}

// Also adds a statement to the transaction that records the attempt as done, e.g. to update pawl's own tables. If the
// attempt fails, the statement is not executed.
func (a *Attempt) Also(statement ledger.Statement) { a.also = append(a.also, statement) }

// Commit marks the point of no return. Call it right before the step after which a missing response leaves the
// outcome unknown. If it returns an error, stop before that step.
func (a *Attempt) Commit() error { return a.commit() }

// Lost returns an error with an unknown outcome if the effect may have happened while the database lost its
// transactions; see [Loss]. at is when the event occurred or the scheduled action was due. Call it before the first
// attempt at a sink that forgets keys.
func (a *Attempt) Lost(at time.Time) error { return a.lost(at) }
