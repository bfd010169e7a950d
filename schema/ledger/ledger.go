package ledger

import (
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/schema/event"
)

// State is the state of an effect.
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

// Class is the kind of a failure. It decides about the next attempt.
type Class string

// The classes of failure.
const (
	// Transient: a later attempt may succeed and is allowed.
	Transient Class = "transient"
	// Exhausted: transient, but the time of this round has passed.
	Exhausted Class = "exhausted"
	// Fault: pawl's request or the deployment is wrong; the customer's data is not. A later round tries again, after
	// the fault has been corrected.
	Fault Class = "fault"
	// Permanent: the sink rejected the request, and would reject it again.
	Permanent Class = "permanent"
	// Ambiguous: the effect may or may not have happened.
	Ambiguous Class = "uncertain"
)

// Claim requests the right to do an effect.
type Claim struct {
	Key  string
	Kind string
	// Exclusive, when set, is a name that only one claimed effect at a time may hold.
	Exclusive string
	// Queue names the first contended row that the effect locks, for example an account, in words for people. Only
	// [Store.InTx] uses it; "" means the key.
	Queue string
	// Round is the number of operator retries of the run.
	Round int
	// Ref is the event of the effect, as in its receipt.
	event.Ref
	RunID string
	// Lease is how long the claim is valid. It must be longer than one attempt.
	Lease time.Duration
	// Request holds the bytes to send. The ledger stores the bytes of the first claim and returns them to each later
	// claim of the same generation. A new generation begins when a later round repeats an effect that was in doubt, or
	// that ended as a refusal or a fault with every attempt answered.
	Request []byte
	// Unmarked is set for an effect that can happen outside of pawl without a Commit before it. If a claim of such an
	// effect lapses, the effect may have happened: the next claim stores {"Unanswered": true} in the key's result. If
	// Unmarked is not set, a lapsed claim has done nothing unless its Commit was recorded.
	Unmarked bool
}

// Grant is the answer to a claim.
type Grant struct {
	// Granted is true if the caller may do the effect now. Otherwise State is the reason: Done, Skipped and Compensated
	// are settled; Failed and Uncertain wait for a later round; Claimed means that another claim is valid until
	// LeaseUntil.
	Granted    bool
	State      State
	Token      int64
	Generation int
	// Attempt counts the claims of the key, including this one.
	Attempt int
	// Round is the latest round that claimed the key. Only a later one repeats an effect that has ended.
	Round int
	// Request holds the bytes to send, possibly from an earlier attempt.
	Request []byte
	// ClaimedAt is when this generation was first claimed.
	ClaimedAt time.Time
	// Age is the time since ClaimedAt when the claim was granted. The key lifetime of a sink counts from ClaimedAt.
	// Both times come from the database, so that no two clocks are compared.
	Age time.Duration
	// Failures counts the transient failures of this round. Trying is the time since its first attempt was claimed.
	Failures int
	Trying   time.Duration
	// LeaseUntil is when the claim of another holder lapses.
	LeaseUntil time.Time

	// EventID and ReceiptID name the event that settled the effect.
	EventID   string
	ReceiptID string
	Result    json.RawMessage
	Error     string
	Class     Class
}

// Settled reports whether the effect has reached a final state.
func (g Grant) Settled() bool {
	return !g.Granted && (g.State == Done || g.State == Skipped || g.State == Compensated)
}

// UnderWay reports whether a run is doing the effect now.
func (g Grant) UnderWay() bool { return g.State == Claimed }

// Finish records the outcome of a claim.
type Finish struct {
	Key   string
	Token int64
	// State is Done, Skipped, Failed or Uncertain.
	State State
	// Result is the effect's return value if State is Done. If State is Failed or Uncertain, Result is nil, which keeps
	// the result of an earlier attempt, or {"Unanswered": true} if this attempt may have happened. The ledger sets that
	// itself for a lapsed claim, see Claim.Unmarked, and changes it to "UnansweredBefore" when a new generation begins.
	//
	// NUL and invalid UTF-8, which a Postgres text cannot store, are removed from the strings of Result, Error and the
	// arguments of Also.
	Result json.RawMessage
	// Error and Class are for Failed and Uncertain.
	Error string
	Class Class
	// Compensates names the effect that this one undoes. It becomes Compensated in the same commit.
	Compensates string
	// Also runs in the same commit, after the record. It writes the data that pawl's own tables hold about an effect
	// outside of pawl. It runs even if the claim was taken over and nothing is recorded, because the effect has
	// happened. A statement that must not run in this case has to check the record itself.
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

// Finished is the result of a Finish.
type Finished struct {
	// Held is false if the claim had been taken over. Nothing was then recorded under the key.
	Held bool
	// Result is the key's result now. A failure without a result keeps the result of an earlier attempt.
	Result json.RawMessage
}

// Sighting records that a run found an effect settled by another run. It is the evidence for "already done by evt_x".
type Sighting struct {
	Key        string
	Generation int
	ReceiptID  string
	RunID      string
	Note       string
}
