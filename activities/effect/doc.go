// Package effect runs one business effect so that it happens once.
//
// [Runner.Do] is for effects outside our database: claim the ledger key, call the outside system,
// record what came of it. [Runner.DoTx] is for effects in our database: claim, change and record
// in one transaction. Both are the body of an activity and the only place that knows how a claim, a
// retry and an outcome belong together.
//
// What they return is made for a workflow: an outcome that the flow must decide on (done, refused,
// failed, uncertain, …) is a [Result]; only what Temporal shall simply try again is an error.
// Attempts are counted in the ledger and not by Temporal, so that the count survives resets and so
// that our own trouble (a database that is down, a worker that died) never uses them up.
package effect
