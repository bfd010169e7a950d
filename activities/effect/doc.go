// Package effect runs one business effect so that it happens once.
//
// [Runner.Do] is for effects outside our database: claim the ledger key, call the outside system,
// record what came of it. [Runner.DoTx] is for effects in our database: claim, change and record
// in one transaction. Both are the body of an activity and the only place that knows how a claim, a
// retry and an outcome belong together.
//
// Their results are made for a workflow. An outcome that the flow must decide on (done, refused, failed, uncertain,
// …) is a [Result]; an error makes Temporal try again. A worker with [ShowNotDone] also turns an effect that is not
// done into an error with the Result in it, so that the Temporal UI shows it as failed. Attempts are counted in the
// ledger and not by Temporal, so that the count survives resets and so that our own trouble (a database that is down,
// a worker that died) never uses them up.
package effect
