// Package effect runs a business effect exactly once.
//
// [Runner.Do] is for effects in outside systems: it claims the ledger key, calls the system, and records the outcome.
// [Runner.DoTx] is for effects in pawl's own database: claim, change and record share one transaction. Activities
// call one of them; claims, retries and outcomes are handled only here.
//
// An outcome that the flow must decide on (done, refused, failed, uncertain, …) is a [Result]. An error makes
// Temporal retry. A worker with [ShowNotDone] also returns an error, with the Result in it, for an effect that is not
// done, so that the Temporal UI shows the activity as failed. The ledger counts the attempts, not Temporal. The count
// therefore survives a reset, and failures of pawl itself (database down, worker died) do not use up attempts.
package effect
