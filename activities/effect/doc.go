// Package effect runs a business effect exactly once.
//
// [Runner.Do] is for effects in outside systems: it claims the ledger key, calls the system, and records the outcome.
// [Runner.DoTx] is for effects in pawl's own database: claim, change and record share one transaction. Activities
// call one of them; claims, retries and outcomes are handled only here.
//
// If an attempt has an outcome (done, refused, failed, uncertain, …), the methods return a [Result]. If they return an
// error, Temporal retries. With [ShowNotDone], an activity also returns an error if its effect is not done, with the
// Result in it, so that the Temporal UI shows the activity as failed. The ledger counts the attempts. The count
// therefore survives a reset, and failures of pawl itself (the database is down, a worker dies) do not count.
package effect
