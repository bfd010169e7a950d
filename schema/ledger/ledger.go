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

// Class is the kind of a failure. It determines whether and when the effect is tried again.
type Class string

// The classes of failure.
const (
	// Transient: a later attempt may succeed, and is allowed.
	Transient Class = "transient"
	// Exhausted: the failure is transient, but the time limit of this round has passed.
	Exhausted Class = "exhausted"
	// Fault: pawl's request or the deployment is wrong, and not the customer's data. A later round tries again after a
	// person has corrected the fault.
	Fault Class = "fault"
	// Permanent: the sink rejected the request and would reject it again.
	Permanent Class = "permanent"
	// Ambiguous: the effect may or may not have happened.
	Ambiguous Class = "uncertain"
)

// Claim requests the right to do an effect.
type Claim struct {
	Key  string
	Kind string
	// Exclusive, if set, is a name. Only one effect with this name can be claimed at a time.
	Exclusive string
	// Queue names the first row that the effect locks and that other effects also lock, for example an account. People
	// see this name. Only [Store.InTx] uses Queue; "" means the key.
	Queue string
	// Round counts how often an operator has retried the run.
	Round int
	// Ref is the event of the effect, as in its receipt.
	event.Ref
	RunID string
	// Lease is how long the claim is valid. It must be longer than one attempt.
	Lease time.Duration
	// Request is the body to send to the sink. The ledger stores the request of the first claim, and returns it to each
	// later claim of the same generation. A later round begins a new generation if it repeats an effect that was
	// uncertain. It also begins one after a refusal or a fault, if every attempt was answered.
	Request []byte
	// Unmarked is set if the effect can happen outside of pawl without a preceding Commit. If the lease of such a claim
	// ends, the effect may have happened, and the next claim stores {"Unanswered": true} in the result. If Unmarked is
	// not set, a lapsed claim has done nothing unless its Commit was recorded.
	Unmarked bool
}

// Grant is the result of a claim.
type Grant struct {
	// Granted is true if the caller may do the effect now. Otherwise State is the reason. Done, Skipped and Compensated
	// are final states. Failed and Uncertain require a later round. Claimed means that another claim is valid until
	// LeaseUntil.
	Granted    bool
	State      State
	Token      int64
	Generation int
	// Attempt counts the claims of the key, including this one.
	Attempt int
	// Round is the latest round that claimed the key. Only a later round can repeat an effect that has ended.
	Round int
	// Request is the body to send, which an earlier attempt may have stored.
	Request []byte
	// ClaimedAt is when this generation was first claimed.
	ClaimedAt time.Time
	// Age is the time between ClaimedAt and this claim. It is compared with the time for which a sink remembers a key.
	// Both times come from the database, so that two clocks are never compared.
	Age time.Duration
	// Failures counts the transient failures of this round. Trying is the time since the first attempt of this round.
	Failures int
	Trying   time.Duration
	// LeaseUntil is when the lease of another claim ends.
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
	// Result is the effect's return value if State is Done. If State is Failed or Uncertain, Result is nil or
	// {"Unanswered": true}. Nil keeps the result of an earlier attempt. {"Unanswered": true} means that this attempt
	// may have happened. For a lapsed claim, the ledger sets this itself; see [Claim.Unmarked]. When a new generation
	// begins, the ledger renames it to "UnansweredBefore".
	//
	// NUL and invalid UTF-8, which a Postgres text cannot store, are removed from the strings of Result, Error and the
	// arguments of Also.
	Result json.RawMessage
	// Error and Class are set if State is Failed or Uncertain.
	Error string
	Class Class
	// Compensates is the key of the effect that this effect undoes. That effect becomes Compensated in the same commit.
	Compensates string
	// Also is executed in the same commit, after the record. It stores data about an effect that happened outside of
	// pawl in pawl's own tables. It is executed even if the claim was taken over and nothing is recorded, because the
	// effect has happened. A statement that must not run in this case has to check the record itself.
	Also      []Statement
	StartedAt time.Time
}

// undoes reports whether recording f makes another effect Compensated.
func (f *Finish) undoes() bool { return f.Compensates != "" && f.State == Done }

// Statement is one SQL statement with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Finished is the result of [Store.Finish].
type Finished struct {
	// Held is false if another claim has taken over. Nothing was then recorded under the key.
	Held bool
	// Result is the result that the key has now. A failure without a result keeps the result of an earlier attempt.
	Result json.RawMessage
}

// Sighting records that a run found an effect already settled by another run. The timeline shows it as "already done by
// evt_x".
type Sighting struct {
	Key        string
	Generation int
	ReceiptID  string
	RunID      string
	Note       string
}
