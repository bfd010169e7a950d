package ledger

import (
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/schema/event"
)

// State is where an effect stands.
type State string

// The states of an effect.
const (
	Claimed     State = "claimed"
	Done        State = "done"
	Failed      State = "failed"
	Uncertain   State = "uncertain"
	Skipped     State = "skipped"
	Compensated State = "compensated"
)

// Class says what a failure means for the next attempt.
type Class string

// The classes of failure.
const (
	// Transient: a later attempt may succeed, and is allowed.
	Transient Class = "transient"
	// Exhausted: transient, and this round's time is used up.
	Exhausted Class = "exhausted"
	// Fault: the other side cannot take the request as we send it, which says nothing about the customer. A later
	// round goes on, once we or the deployment are mended.
	Fault Class = "fault"
	// Permanent: the other side refused; the same request will be refused again.
	Permanent Class = "permanent"
	// Ambiguous: nobody knows whether it happened.
	Ambiguous Class = "uncertain"
)

// Claim asks for the right to do an effect.
type Claim struct {
	Key  string
	Kind string
	// Exclusive, when set, names what only one claimed effect at a time may touch.
	Exclusive string
	// Queue names the first contended row that the effect locks, an account say, in words that a person understands.
	// It is for [Store.InTx] alone; "" stands for the key.
	Queue string
	// Round is the number of operator retries that the run has had.
	Round int
	// Ref is the event that it is done for, as its receipt has it.
	event.Ref
	RunID string
	// Lease is how long the claim holds; it must outlast one attempt.
	Lease time.Duration
	// Request holds the bytes to send. The first claim's are kept, and returned to each later claim of the same
	// generation. A new generation begins when a later round repeats an effect that was in doubt, or that ended as a
	// refusal or a fault with every attempt answered.
	Request []byte
	// Unmarked is set for an effect that can happen outside without a Commit before it. When a claim of such an
	// effect runs out, nobody knows whether it happened: the claim that takes over keeps {"Unanswered": true} as the
	// key's result. If Unmarked is not set, a claim that ran out has done nothing, unless its Commit was recorded.
	Unmarked bool
}

// Grant is the answer to a claim.
type Grant struct {
	// Granted is true when the caller may do the effect now. Otherwise State and what follows say
	// why not: Done, Skipped and Compensated are settled; Failed and Uncertain wait for a later
	// round; Claimed means that another holds the lease until LeaseUntil.
	Granted    bool
	State      State
	Token      int64
	Generation int
	// Attempt counts the claims of the key, this one included.
	Attempt int
	// Round is the last one that claimed the key: only a later one repeats an effect that has ended.
	Round int
	// Request holds the bytes to send, which may be those of an earlier attempt.
	Request []byte
	// ClaimedAt is when this generation was first claimed.
	ClaimedAt time.Time
	// Age is how long ago that was when the claim was granted: a sink's key lifetime counts from there. Both
	// times are the database's, so that no two clocks are compared.
	Age time.Duration
	// Failures counts the transient failures of this round, and Trying is how long ago its first attempt was claimed.
	Failures int
	Trying   time.Duration
	// LeaseUntil is when a claim held by another runs out.
	LeaseUntil time.Time

	// EventID and ReceiptID say who did it, for an effect that is settled.
	EventID   string
	ReceiptID string
	Result    json.RawMessage
	Error     string
	Class     Class
}

// Settled reports whether the effect needs nothing more.
func (g Grant) Settled() bool {
	return !g.Granted && (g.State == Done || g.State == Skipped || g.State == Compensated)
}

// UnderWay reports whether a run is doing the effect at this moment.
func (g Grant) UnderWay() bool { return g.State == Claimed }

// Finish records what came of a claim.
type Finish struct {
	Key   string
	Token int64
	// State is Done, Skipped, Failed or Uncertain.
	State State
	// Result is the effect's return value when State is Done. When State is Failed or Uncertain, Result is nil, which
	// keeps the result of an earlier attempt, or {"Unanswered": true}: this attempt may have happened. The ledger
	// writes that itself for a claim that ran out, see Claim.Unmarked, and turns it into "UnansweredBefore" when a
	// new generation begins.
	//
	// NUL and invalid UTF-8, which Postgres text cannot hold, are dropped from the strings of Result, Error and the
	// arguments of Also.
	Result json.RawMessage
	// Error and Class are for Failed and Uncertain.
	Error string
	Class Class
	// Compensates names the effect that this one undoes: it becomes Compensated in the same commit.
	Compensates string
	// Also runs in the same commit, after the record: what our own tables hold of an effect that happened
	// outside. It runs even when the claim was taken over and nothing is recorded, because the effect has happened all
	// the same. A statement that must not run then has to read the record itself.
	Also      []Statement
	StartedAt time.Time
}

// undoes reports whether the record makes another effect Compensated.
func (f *Finish) undoes() bool { return f.Compensates != "" && f.State == Done }

// Statement is one SQL statement with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Finished tells what a Finish came to.
type Finished struct {
	// Held is false when the claim had been taken over: nothing was recorded under the key.
	Held bool
	// Result is what the key holds now. A failure without one keeps that of an earlier attempt.
	Result json.RawMessage
}

// Sighting records that a run met an effect that another had settled: the evidence of "already
// done by evt_x".
type Sighting struct {
	Key        string
	Generation int
	ReceiptID  string
	RunID      string
	Note       string
}
