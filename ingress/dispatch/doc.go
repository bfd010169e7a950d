// Package dispatch starts the workflow of each receipt. It is the only starter.
//
// A committed event comes in by [Dispatcher.Offer], in memory and without waiting; the sweep finds
// in the table what that way has missed: a full queue, a crash, a Temporal that was down or slow. Starting
// twice is harmless, because the workflow ID is the event's and Temporal refuses the second start,
// which counts as success. So a receipt is started at least once, and runs once.
//
// Starting twice costs Temporal as much as starting, though, and it would when Temporal is too slow anyway. So the two
// ways share one lease, [receipt.Lease]: a receipt that waits in memory is not due, and what has waited there for so
// long that it may soon become due is left to the sweep.
//
// While Temporal is down nothing is lost and nothing hammers: only the sweep tries, one receipt at
// a time with growing pauses, and when one start succeeds it works off what has gathered.
package dispatch
