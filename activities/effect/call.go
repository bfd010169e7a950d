package effect

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Call names one effect for one run: who does what, under which key.
type Call struct {
	// Key names the business effect and not the run: a retry, a replay, a reset and a second event for the
	// same fact all come with the same key.
	Key string
	// Kind is the stable name of the kind of effect, e.g. "receipt-email".
	Kind string
	// Round counts the retries that operators have asked for. An effect that has ended is repeated only in a later
	// round than the ledger holds; see [Result.Round].
	Round int
	// Ref is the event that it is done for.
	event.Ref
	// Compensates is the key of the effect that this one undoes, "" for a forward effect.
	Compensates string
	// After are the keys of effects that are settled before this one is tried. One that ends with a colon stands for
	// all that begin with it.
	After []string `json:",omitempty"`
	// AsOf is when the workflow task began that asks for the effect, zero where that is not known. An attempt
	// that outlives it shows nothing on the receipt that a later task has moved.
	AsOf time.Time
	// WaitingSince is since when the run has waited in this round with the effect not tried, zero where it has not.
	WaitingSince time.Time `json:",omitzero"`
	// Timeout bounds one attempt, in place of [Policy.Timeout]; zero leaves it to the policy. A flow gives the value
	// that it began with, because its own bound around the attempt is made of that.
	Timeout time.Duration
	// ByHand is set where a person says that the effect has happened: nothing is sent, and it is recorded as done.
	ByHand *ByHand `json:",omitempty"`
}

// Check returns [Foreign] if mode is not that of the call's event.
func (c Call) Check(mode string) error {
	if mode != c.Mode {
		return Foreign(c.Ref, nil)
	}
	return nil
}

// ByHand says who knows that an effect has happened, and where that can be seen.
type ByHand struct {
	Who, Why string
	// Reference is the outside system's name for it.
	Reference string
}

// Policy says how an effect may be tried.
type Policy struct {
	// Timeout bounds one attempt, unless the call says otherwise.
	Timeout time.Duration
	// Gate is the gate of its sink, nil for none.
	Gate *Gate
	// Retries say when it is tried again.
	Retries Retries
	// KeyLifetime is how long the sink remembers an idempotency key. A later attempt could be
	// applied a second time, so the effect becomes uncertain instead. Zero means for ever.
	KeyLifetime time.Duration
	// Marks says that fn calls [Attempt.Commit] before the effect can happen. An attempt that ended without
	// an outcome has then done nothing, unless it had set the mark. If Marks is false, it may have done the effect.
	Marks bool
	// Exclusive names what only one effect at a time may touch, "" for nothing.
	Exclusive string
	// About is the account that the effect is about, with its mode; "" stands for one that no other effect is about. A
	// sink's answer about one account says little about the others.
	About string
	// ByHand writes our own tables when a person says that the effect has happened, and returns the value for the
	// ledger. It is nil if only the reference is kept.
	ByHand func(a *Attempt, reference string) any
}

func (p Policy) about(c Call) string { return cmp.Or(p.About, c.Key) }

// lease outlasts an attempt by what recording its outcome may take, and half a second.
func (p Policy) lease() time.Duration { return p.Timeout + recording + 500*time.Millisecond }

// State is what an effect came to, as the flow sees it.
type State string

// The states that a flow decides on.
const (
	Done        State = "done"         // done by this call
	AlreadyDone State = "already_done" // done before, by this or another event
	Skipped     State = "skipped"      // an operator, or newer state, said that it shall not be done
	Compensated State = "compensated"  // done before and undone since
	Refused     State = "refused"      // the other side said that this cannot be had
	// trying by itself will not finish it: its time is used up, or it is a fault of ours
	Failed    State = "failed"
	Uncertain State = "uncertain" // nobody knows whether it happened; a person decides
	// not tried: its sink is out, it is too early, or another effect comes first; the flow waits
	Waits State = "waits"
)

// Known reports whether s is one of these states.
func (s State) Known() bool {
	return s.Settled() || s == Refused || s == Failed || s == Uncertain || s == Waits
}

// Settled reports whether nothing more is to be done about the effect.
func (s State) Settled() bool {
	return s == Done || s == AlreadyDone || s == Skipped || s == Compensated
}

// Result is what an effect came to. It stands in workflow histories: no personal data.
type Result struct {
	State State
	// By is the event that did it, when that was another one.
	By string `json:",omitempty"`
	// Reason says why it is not done, in our own words: what an outside system said of it is in the ledger alone.
	Reason string `json:",omitempty"`
	// Value is what the effect returned, as recorded in the ledger; empty for one that is not done.
	Value json.RawMessage `json:",omitempty"`
	// Unanswered is set for an effect that is not done, a skipped one included, when any attempt ended without an
	// answer: it may have happened all the same, or still happen, whatever later attempts were told.
	Unanswered bool `json:",omitempty"`
	// Wait is how long to wait before it is asked for again, where State is Waits.
	Wait time.Duration `json:",omitempty"`
	// Held is set where it waits for a sink that is out or paused.
	Held bool `json:",omitempty"`
	// First is the key of the effect that it waits for, "" where it waits for something else.
	First string `json:",omitempty"`
	// Round is the ledger's for an effect that is not done: another run, or this one before a reset,
	// may have tried it in later rounds than the caller's.
	Round int `json:",omitempty"`
	// Met is set for an effect that is not done, where the ledger had that already: this call has tried nothing.
	Met bool `json:",omitempty"`
}

// MayHaveHappened reports whether the other side may have done the effect, so that taking things
// back must include it.
func (r Result) MayHaveHappened() bool {
	switch r.State {
	case Done, AlreadyDone, Uncertain:
		return true
	case Refused, Failed:
		return r.Unanswered
	}
	return false
}

// Attempt is what fn gets to do its work with.
type Attempt struct {
	// IdempotencyKey is what to send to a sink that remembers keys, 255 bytes at most. It is the effect's key, with
	// the generation from the second on, or stands for it where that is longer.
	IdempotencyKey string
	// Request holds the bytes to send: those of the first attempt, whatever the caller would make now.
	Request []byte
	// Repeat is set when an attempt came before under the same idempotency key: an answer may be about that one.
	Repeat bool
	// Correlation is that of the event.
	Correlation string

	commit func() error
	also   []ledger.Statement
}

// Also adds a statement to the commit that records the attempt as done: what our own tables hold of
// it. It is dropped when the attempt fails.
func (a *Attempt) Also(statement ledger.Statement) { a.also = append(a.also, statement) }

// Commit marks the point of no return: call it right before the step after which a missing answer
// leaves the outcome unknown. When it returns an error the attempt must stop before that step.
func (a *Attempt) Commit() error { return a.commit() }
